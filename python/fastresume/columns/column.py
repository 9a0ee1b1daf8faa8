"""`fr.col(...)`: columns and the rules for them; compared with a value, a condition for `filter=`."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from decimal import Decimal
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import fastresume._core as _core
from fastresume.columns.refusals import (
    Refusals,
    checked_name,
    checked_names,
    listed,
    takes_names,
)
from fastresume.columns.rules import Rules, dtype_name
from fastresume.filter.condition import (
    Comparison,
    Condition,
    IsNull,
    Membership,
    Named,
    Not,
    literal,
)
from fastresume.options.checks import at_least, integer, number, of_arrow, one_of, quoted, text_or_bytes
from fastresume.options.unknown import takes_no_other

if TYPE_CHECKING:
    import torch

LONGEST = 200
"""An error shows no more of an expression."""


@takes_no_other("fr.col(...)")
class Column(Refusals):
    """Columns, by names and patterns, and the rules for each: what `fr.col(...)` returns.

    A frozen value: each method returns a new one. Its `repr` is the code that makes it. It may be pickled and
    shared between threads and processes. `==` makes a condition for `filter=`; `.equals()` compares.

    Args:
        names: names of columns, names of structs or maps (which mean all their members), and glob patterns. A
            `!` before a name or pattern leaves it out.

    Raises:
        TypeError: if there are none, or one is no string. Of methods: if the rule has no meaning here, or was
            given before.

    Examples:
        >>> import fastresume as fr
        >>> fr.col("user").hash(1_000_003, seed=7).alias("bucket")
        fr.col('user').hash(1000003, seed=7).alias('bucket')
        >>> fr.col("label") >= 0
        (fr.col('label') >= 0)
    """

    __slots__ = ("names", "rules", "tensor_name")
    __hash__ = None  # type: ignore[assignment]  # equality makes a condition

    names: tuple[str, ...]
    rules: Rules
    tensor_name: str | None

    def __init__(self, *names: str | Sequence[str]) -> None:
        self._set(checked_names("fr.col", listed(names)), Rules(), None)

    def _set(self, names: tuple[str, ...], rules: Rules, tensor_name: str | None) -> None:
        for name, value in (("names", names), ("rules", rules), ("tensor_name", tensor_name)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise AttributeError(f"an expression is frozen: its methods give new ones, found {name} = ...")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"an expression is frozen, found del .{name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_made, (self.names, self.rules, self.tensor_name))

    # ----------------------------------------------------------------------------------------- rules for them

    def cast(self, dtype: torch.dtype, *, rounding: bool = False) -> Column:
        """Numbers of another dtype, each checked: `[B]`, or a `Jagged` of them.

        A cast keeps every number. Only a float may become the nearest one of a narrower float type. An
        integer that the type can't hold exactly, a fraction cast to integers, and a float beyond the type are
        a DataError that names value and row. A decimal is taken as its number, not as its unscaled integer.
        Files may hold different types of numbers.

        Args:
            dtype: a dtype of integers, floats or bool.
            rounding: whether an integer may become the nearest float, too: 16,777,217 is 16,777,216.0 in
                float32.

        Raises:
            TypeError: if it is no dtype of numbers, or rounding is asked of one that holds no floats.

        Examples:
            >>> import fastresume as fr, torch
            >>> fr.col("user_id").cast(torch.float32, rounding=True)
            fr.col('user_id').cast(torch.float32, rounding=True)
        """
        name = dtype_name(f"{self._shown}.cast", dtype)
        if rounding and not dtype.is_floating_point:
            raise TypeError(f"{self._shown}.cast: rounding= is for casts to floats, found torch.{name}")
        later = "int64; dataset.map(function) makes another type of it"
        self._refuse("cast", cast=None, hash=f"a bucket is {later}", codes=f"a code is {later}")
        self._refuse("cast", raw=f"bytes are no number; batch[{self._name!r}].view(torch.{name}) reads some")
        made = _core.numbers_of_texts(self._name, True, name)
        self._refuse("cast", split=f"texts are no numbers; make {made} in dataset.map(function)")
        return self._with(cast=name, rounding=rounding)

    def clip(self, low: float | None = None, high: float | None = None) -> Column:
        """Numbers between two bounds, items of lists, too: others become the bound that they are beyond.

        A NaN stays one, and so does what `.fill_null()` and `.pad()` put in. It comes before a cast, wherever
        you write it: `.clip(-128, 127).cast(torch.int8)` has no misfits. Of decimals, what is clipped is what
        `.decimal()` makes of them.

        Args:
            low: the least number, of the column's type; None for no bound.
            high: the greatest one.

        Raises:
            TypeError: if there is no bound, or one is no number.
            ValueError: if `low` is above `high`, or a bound is NaN.

        Examples:
            >>> import fastresume as fr
            >>> fr.col("clicks").clip(0, 100)
            fr.col('clicks').clip(0, 100)
        """
        what = f"{self._shown}.clip"
        if low is None and high is None:
            raise TypeError(f"{what} takes a bound, as .clip(0, 100) or .clip(high=100), found none")
        least = None if low is None else _number(f"the low of {what}", low)
        greatest = None if high is None else _number(f"the high of {what}", high)
        both = [bound for bound in (least, greatest) if bound is not None]
        if any(bound != bound for bound in both) or both != sorted(both):
            raise ValueError(
                f"{what} takes numbers, the first at most the second, found {quoted(low)} and {quoted(high)}"
            )
        self._refuse("clip", clip=None, hash="a bucket is no amount", codes="a code is no amount")
        self._refuse("clip", raw="bytes are no number", split="texts are no numbers")
        return self._with(clip=(least, greatest))

    def fill_null(self, value: bool | float | str | bytes) -> Column:
        """A value for each null, of the tensor's type: after `.hash()` a bucket, after `.codes()` a code.

        A null list or text is then empty; `""` means that for texts only. A null element of a list becomes
        the value. A NaN is no null, and stays.

        Raises:
            TypeError: if it is no number and no empty text.
        """
        if isinstance(value, (str, bytes)):
            if self.rules.hash is not None or self.rules.codes is not None:
                kind = "bucket" if self.rules.codes is None else "code"
                raise TypeError(
                    f"{self._shown}.fill_null takes a {kind}, which is a number, found {quoted(value)}"
                )
            if value:
                raise TypeError(
                    f"{self._shown}.fill_null takes a number, or '' for an empty text, found {quoted(value)}"
                )
            self._refuse("fill_null", nulls=None)
            return self._with(nulls="")
        given: object = value
        if given is None:
            raise TypeError(
                f"{self._shown}.fill_null takes a number, found None: .mask_null() says in a tensor beside "
                "it which rows are null"
            )
        if isinstance(given, list | tuple):
            raise TypeError(
                f"{self._shown}.fill_null takes a number, found {quoted(value)}: .fill_null(0) makes a null "
                "list empty, and a null element 0"
            )
        filled = _number(f"the value of {self._shown}.fill_null", value)
        self._refuse("fill_null", nulls=None)
        return self._with(nulls=filled)

    def mask_null(self) -> Column:
        """Adds a bool tensor `name + "_valid"`: False where there is a null, whose value is 0.

        A NaN is no null.

        A `Jagged` has its `.valid` instead, and `.values_valid` for the numbers of lists. If these are a
        matrix, it is the tensor `name + "_values_valid"` of its shape. For a struct that is named, there is
        also `name + "_valid"` for the struct itself.
        """
        self._refuse("mask_null", nulls=None)
        return self._with(nulls="mask")

    def optional(self) -> Column:
        """Files may lack the column: their rows are null. A name or pattern may match nothing at all."""
        return self._with(optional=True)

    def from_path(self) -> Column:
        """The values in the files' paths, as `region=eu/part-0.parquet` has one of `region`.

        int64 if all of them are integers, else texts.
        """
        return self._with(from_path=True)

    def alias(self, name: str) -> Column:
        """Another name for the tensor of one column; its mask is then named `name + "_valid"`.

        Raises:
            ValueError: if the name is empty.
        """
        if self.tensor_name is not None:
            self._twice("alias")
        return _made(self.names, self.rules, checked_name(f"{self._shown}.alias", name))

    def hash(self, buckets: int, seed: int = 0) -> Column:
        """The buckets of texts, bytes or integers: int64 in [0, buckets), `[B]` or a `Jagged`.

        A value has the same bucket in all columns with the same number of buckets and the same seed, in every
        release (docs/reference/shaping.md). Integers that pandas stored as floats, since one was missing, are
        hashed by `.cast(torch.int64).hash(...)`: 3.0 is in the bucket of 3, and 2.5 is a DataError.

        Raises:
            ValueError: if `buckets` is not in [1, 2**63], or the seed not in [0, 2**64).
        """
        what = f"of {self._shown}.hash"
        buckets, seed = integer(f"the buckets {what}", buckets), integer(f"the seed {what}", seed)
        if not 1 <= buckets <= 2**63:
            raise ValueError(f"{self._shown}.hash: buckets must be in [1, 2**63], found {buckets}")
        if not 0 <= seed < 2**64:
            raise ValueError(f"{self._shown}.hash: seed must be in [0, 2**64), found {seed}")
        self._refuse("hash", hash=None, codes="write .hash or .codes, not both", clip="a clip is of amounts")
        if self.rules.cast not in (None, "int64"):
            self._refuse("hash", cast="write .cast(torch.int64) instead: integers are hashed as int64")
        self._refuse_before("hash", "a bucket")
        return self._with(hash=(buckets, seed))

    def split(self, separator: str | bytes) -> Column:
        """The values that a text holds, as a list of texts: a `Jagged` of a `Jagged` of uint8.

        `.hash()` or `.codes()` after it makes int64 of each value. An empty text has no values, and `"a,,b"`
        has an empty one between the others.

        Raises:
            ValueError: if the separator is empty.
        """
        if not text_or_bytes(f"the separator of {self._shown}.split", separator):
            raise ValueError(f"{self._shown}.split takes the text between values, found {quoted(separator)}")
        for said in ("hash", "codes", "cast", "decimal", "raw", "fixed", "pad"):
            if getattr(self.rules, said) is not None:
                order = said in ("hash", "codes", "pad")
                why = f"write .split before .{said}" if order else "what it gives are texts"
                raise TypeError(f"{self._shown}.split: {why}")
        self._refuse("split", split=None, clip="what it gives are texts")
        return self._with(split=separator)

    def codes(self, values: Iterable[str | bytes] | None = None, unknown: int | None = None) -> Column:
        """The codes of texts or bytes: int64, `[B]` or a `Jagged`; `dataset.dictionaries` has the values.

        The code of a value is its index in `values`. Without these, it is its index among all distinct values
        of the files' rows (selected or not), in the order of their bytes; they are collected when the dataset
        is made.

        Args:
            values: the values, in the order of their codes.
            unknown: the code of all other values; without it, any other value is a DataError. It may be that
                of a named value, as 0 for the first of `["<unknown>", "a", "b"]`.

        Raises:
            ValueError: if a value is named twice, or `unknown` is given without `values`.
        """
        named = None
        if values is not None:
            if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
                raise TypeError(f"{self._shown}.codes takes a list of values, found {quoted(values)}")
            if isinstance(values, Mapping | AbstractSet):
                way, made = _in_order(values)
                raise TypeError(
                    f"{self._shown}.codes takes a list of values, found a {type(values).__name__}: {way}; "
                    f"write {self._shown}.codes({made})"
                )
            values = list(values)
            if any(isinstance(of_arrow(value), Integral) for value in values):
                raise TypeError(
                    f"{self._shown}.codes takes texts or bytes, found {quoted(values)}: integers are codes "
                    "themselves, which dataset.map(function) may count from 0; .hash(buckets) takes any"
                )
            named = tuple(text_or_bytes(f"a value of {self._shown}.codes", value) for value in values)
            if len(set(named)) < len(named):
                twice = next(value for place, value in enumerate(named) if value in named[:place])
                raise ValueError(f"{self._shown}.codes names the value {twice!r} twice")
        if unknown is not None:
            if named is None:
                raise ValueError(
                    f"{self._shown}.codes: unknown= is for values that are named; the files' are known"
                )
            unknown = at_least(0, f"the unknown of {self._shown}.codes", unknown)
        self._refuse("codes", codes=None, hash="write .hash or .codes, not both")
        self._refuse("codes", cast="numbers have no codes", clip="numbers have no codes")
        self._refuse("codes", decimal="numbers have no codes", raw="bytes of one length have none, but .hash")
        self._refuse_before("codes", "a code")
        return self._with(codes=(named, unknown))

    def pad(
        self,
        length: int,
        value: bool | float = 0,
        truncate: Literal["head", "tail"] | None = None,
        *,
        side: Literal["right", "left"] = "right",
    ) -> Column:
        """Lists, texts and bytes as `[B, length]`, filled up; lists of k numbers each, `[B, length, k]`.

        `name + "_length"`, int64 `[B]`, says how many elements of each row are its own.

        Args:
            length: elements of each row, at least 1.
            value: the value where a row has no element; of the tensor's type.
            truncate: the part of a longer row to keep: its first elements ("head") or its last ("tail").
                Without it, a longer row is a DataError.
            side: where a row is filled up: after its elements ("right") or before them ("left").
        """
        if isinstance(length, str | bool | None):
            raise TypeError(
                f"the length of {self._shown}.pad must be an integer, found {quoted(length)}: write "
                f"batch[{self._name!r}].to_padded() in dataset.map(function), which is as long as the longest"
            )
        size = at_least(1, f"the length of {self._shown}.pad", length)
        filled = _number(f"the value of {self._shown}.pad", value)
        if truncate is not None:
            one_of(f"the truncate of {self._shown}.pad", truncate, ("head", "tail"), "None")
        one_of(f"the side of {self._shown}.pad", side, ("right", "left"))
        self._refuse("pad", pad=None)
        if self.rules.fixed and self.rules.fixed[0] is not None:
            self._refuse("pad", fixed="all rows have one length already")
        return self._with(pad=(size, filled, str(side), truncate))

    def fixed(self, length: int | tuple[int | None, ...] | None) -> Column:
        """Lists that all have k elements as `[B, k]`; lists of lists, by a tuple, as `[B, k1, k2]`.

        `(None, k)` is for inner lists only: a `Jagged` of `[*, k]`, which `.pad(T)` makes `[B, T, k]`. A list
        of another length is a DataError; a null one is filled as a null number is. If the Arrow schema in the
        files says that all lists have one length, you need not say it, and None makes a `Jagged` of them.
        """
        self._refuse("fixed", fixed=None, raw="lists of bytes are a Jagged", split=".pad is for these lists")
        if length is None:
            return self._with(fixed=())
        lengths = tuple(length) if isinstance(length, (tuple, list)) else (length,)
        what = f"a length of {self._shown}.fixed"
        sizes = [None if one is None else at_least(1, what, one) for one in lengths]
        outer = next((place for place, size in enumerate(sizes) if size is not None), None)
        if outer is None or None in sizes[outer:]:
            raise ValueError(
                f"{self._shown}.fixed takes a length, or a tuple of them after None for outer lists, "
                f"as (None, 4), found {quoted(length)}"
            )
        if outer == 0:
            self._refuse("fixed", pad="all rows have one length already")
        return self._with(fixed=tuple(sizes))

    def decimal(self, to: Literal["int64", "float64", "float32", "bytes"] | torch.dtype) -> Column:
        """Decimals as unscaled integers ("int64"), as floats, or as the bytes that the file holds ("bytes").

        "float32" is the float32 nearest to the float64. Without it, "int64" if the type says that all fit (18
        digits). An integer that does not fit is a DataError that names it. `torch.float64` means "float64".
        """
        named = str(to).removeprefix("torch.")
        one_of(f"the type of {self._shown}.decimal", named, ("int64", "float64", "float32", "bytes"))
        self._refuse("decimal", decimal=None, codes="numbers have no codes", raw="bytes are no decimal")
        self._refuse("decimal", split="texts are no decimals")
        if self.rules.cast is not None or self.rules.hash is not None:
            said = "cast" if self.rules.cast is not None else "hash"
            raise TypeError(f"{self._shown}.decimal: write .decimal before .{said}")
        if named == "float32":
            return self._with(decimal="float64", cast="float32")
        return self._with(decimal=named)

    def raw(self) -> Column:
        """Values of one length as the bytes that the file holds: uint8 `[B, n]`; of lists, `values` `[*, n]`.

        It is for Parquet's FIXED_LEN_BYTE_ARRAY, no matter what it means: UUIDs, float16, vectors of bfloat16
        (`batch["x"].view(torch.bfloat16)`), and decimals as Arrow writes them (two's complement, the highest
        byte first).
        """
        self._refuse("raw", raw=None, decimal="the rule for the bytes is given already")
        self._refuse(
            "raw",
            cast="bytes are no number",
            clip="bytes are no number",
            codes="bytes of one length have none, but .hash",
        )
        self._refuse("raw", fixed="lists of bytes are a Jagged", split="texts are no bytes of one length")
        if self.rules.hash is not None:
            raise TypeError(f"{self._shown}.raw: write .raw before .hash")
        return self._with(raw=True)

    # --------------------------------------------------------------------------------------------- conditions

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]  # it makes a condition
        return self._compared("==", value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]  # it makes a condition
        return self._compared("!=", value)

    def __lt__(self, value: object) -> Condition:
        return self._compared("<", value)

    def __le__(self, value: object) -> Condition:
        return self._compared("<=", value)

    def __gt__(self, value: object) -> Condition:
        return self._compared(">", value)

    def __ge__(self, value: object) -> Condition:
        return self._compared(">=", value)

    def isin(self, values: Iterable[object]) -> Condition:
        """The condition that the value is one of these."""
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise TypeError(f"{self._shown}.isin takes a list of values, found {quoted(values)}")
        return Membership.of(self._asked("isin"), values)

    def is_null(self) -> Condition:
        """The condition that there is no value."""
        return IsNull(self._asked("is_null"))

    def is_valid(self) -> Condition:
        """The condition that there is a value."""
        return Not(IsNull(self._asked("is_valid")))

    def _compared(self, op: str, value: object) -> Condition:
        if isinstance(value, Column):
            raise TypeError(
                f"{self._shown} {op} {value.text}: a filter compares a column with a value; rows= "
                "takes a mask that you make of two columns"
            )
        if value is None and op == "!=":
            raise TypeError(f"{self._shown} != None: write {self._shown}.is_valid()")
        return Comparison(self._asked(op), op, literal(value))

    def _asked(self, op: str) -> Named:
        """The one column that a condition asks for."""
        asked = self.rules == Rules(optional=self.rules.optional, from_path=self.rules.from_path)
        if not asked or self.tensor_name is not None:
            plain = _made(self.names, Rules(), None)
            raise TypeError(f"{self._shown} {op}: a filter asks what files hold, as {plain!r} {op} ... does")
        if len(self.names) != 1:
            raise TypeError(f"{self._shown} {op}: a condition is on one column; join conditions by & and |")
        return Named(self.names[0], self.rules.optional, self.rules.from_path)

    # ------------------------------------------------------------------------------------------------- values

    def equals(self, other: object) -> bool:
        """Whether it is the same expression: the same columns, and the same of each."""
        return isinstance(other, Column) and self._parts == other._parts

    @property
    def _parts(self) -> tuple[object, ...]:
        return (self.names, repr(self.rules), self.tensor_name)

    @property
    def text(self) -> str:
        """The code that makes it, cut short for errors."""
        whole = repr(self)
        return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]}..."

    @property
    def _shown(self) -> str:
        return self.text

    def __repr__(self) -> str:
        alias = "" if self.tensor_name is None else f".alias({self.tensor_name!r})"
        return f"fr.col({', '.join(map(repr, self.names))}){self.rules!r}{alias}"

    def __dir__(self) -> list[str]:
        return sorted(name for name in super().__dir__() if not name.startswith("_"))

    def _with(self, **said: Any) -> Column:
        return _made(self.names, replace(self.rules, **said), self.tensor_name)

    def _twice(self, method: str) -> NoReturn:
        raise TypeError(f"{self._shown}.{method}: .{method} is said already")

    def _refuse(self, method: str, **others: str | None) -> None:
        """Refuses a method after others: for each, why it has no meaning; None where it is the same one."""
        for other, why in others.items():
            said = getattr(self.rules, other)
            if said is None:
                continue
            if why is None:
                if other == "nulls":
                    raise TypeError(f"{self._shown}.{method}: the rule for nulls is given already")
                self._twice(method)
            raise TypeError(f"{self._shown}.{method}(...) has no meaning: {why}")

    def _refuse_before(self, method: str, what: str) -> None:
        """Refuses values that would be hashed or coded themselves."""
        filled = self.rules.nulls not in (None, "mask", "error")
        if filled or self.rules.pad is not None:
            first = "fill_null" if filled else "pad"
            raise ValueError(
                f"{self._shown}.{method}(...): the value of .{first} is {what}: "
                f"write .{first} after .{method}"
            )


def _number(name: str, value: object) -> bool | int | float:
    """The number; of a decimal, the rule that lets the column have others than unscaled integers."""
    if isinstance(value, Decimal):
        raise TypeError(
            f"{name} must be a number (int, float or bool), found {quoted(value)}: write .decimal('float64') "
            f"before it, and {float(value)}"
        )
    return number(name, value)


def _in_order(values: Mapping[Any, Any] | AbstractSet[Any]) -> tuple[str, str]:
    """Why these are no list of values, and what makes one in the order of the codes that are meant."""
    if isinstance(values, KeysView):
        return "a code is an index in a list", "list(values)"
    if not isinstance(values, Mapping):
        return "a set has no order", "sorted(values)"
    if isinstance(next(iter(values.values()), None), list):
        return "it has the values of several columns", "values[name]"
    places = set(range(len(values)))
    if places == set(values):
        return "a code is an index in a list", "[values[code] for code in range(len(values))]"
    if places == {code for code in values.values() if isinstance(code, int)}:
        return "a code is an index in a list", "sorted(values, key=values.get)"
    return "codes are 0, 1, 2, ... in the order of a list, and these are others", "list(values)"


def _made(names: tuple[str, ...], rules: Rules, tensor_name: str | None) -> Column:
    made = object.__new__(Column)
    made._set(names, rules, tensor_name)
    return made


@takes_names("fr.col")
@takes_no_other("fr.col")
def col(*names: str | Sequence[str]) -> Column:
    """Columns by names and patterns, for `columns=` (with rules) and for `filter=` (in a comparison).

    Methods add rules for each column: `cast`, `fill_null`, `mask_null`, `optional`, `from_path`, `alias`,
    `hash`, `clip`, `codes`, `pad`, `fixed`, `decimal`, `raw`, `split`. Comparisons with a value, `is_null()`,
    `is_valid()` and `isin(values)` make conditions, which `&`, `|` and `~` join.

    Examples:
        >>> dataset = ParquetDataset("data/*.parquet", batch_size=32, columns=[
        ...     col("label").cast(torch.float32).alias("y"),
        ...     stack(col("i_*").fill_null(0), name="dense"),
        ... ], filter=col("label") >= 0)
        >>> dataset.schema
        y: float32 [B]
        dense: float32 [B, 3] i_0, i_1, i_2
    """
    return Column(*names)

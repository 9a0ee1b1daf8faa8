"""`fr.stack(...)`: columns side by side, as one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from fastresume.columns.column import LONGEST, Column
from fastresume.columns.refusals import checked_name, checked_names, listed
from fastresume.options.attributes import METHODS_OF_STACKS
from fastresume.options.unknown import refuse_attribute, takes_no_other


@takes_no_other("fr.stack(...)")
@dataclass(frozen=True, eq=False, repr=False)
class Stack:
    """Columns of one dtype side by side, as a matrix `[B, k]`: what `fr.stack(...)` returns. A frozen value.

    Args:
        parts: the columns.
        name: of the tensor.
    """

    parts: tuple[Column, ...]
    name: str

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a method that there is not."""
            refuse_attribute(self, name, "fr.stack(...)", METHODS_OF_STACKS)

    def equals(self, other: object) -> bool:
        """Whether it is the same stack: the same columns in the same order, and the same of each."""
        if not isinstance(other, Stack) or (self.name, len(self.parts)) != (other.name, len(other.parts)):
            return False
        return all(one.equals(two) for one, two in zip(self.parts, other.parts, strict=True))

    @property
    def text(self) -> str:
        """The code that makes it, cut short for errors."""
        whole = repr(self)
        return whole if len(whole) <= LONGEST else f"{whole[:LONGEST]}..."

    def __repr__(self) -> str:
        return f"fr.stack({', '.join(map(repr, self.parts))}, name={self.name!r})"


@takes_no_other("fr.stack")
def stack(*parts: str | Column | Sequence[str | Column], name: str = "dense") -> Stack:
    """Columns of one dtype side by side, as a matrix `[B, k]`, in the order of `parts`.

    Names and patterns mean what they mean in `columns=`: each column once, and without those after a `!`.
    `stack("*", "!label")` is all columns but the label. What `fr.col` names is untouched by that.

    Where nulls are masked, `name + "_valid"` is the mask `[B, k]`: of all of its columns, or of none.

    Args:
        parts: names, patterns, or expressions without an alias: `stack(col("i_*").fill_null(0),
            name="dense")`; or one list of them.
        name: of the tensor.

    Raises:
        TypeError: if a part is something else, or a `!` has no name or pattern beside it to leave columns out
            of.
        ValueError: if there are none, or a part makes a separate tensor (`.alias`, `.pad`).

    Examples:
        >>> stack("i_*", col("x").cast(torch.float32), name="dense")
        fr.stack(fr.col('i_*'), fr.col('x').cast(torch.float32), name='dense')
    """
    checked_name("fr.stack", name)
    if not parts:
        raise ValueError(
            f"fr.stack(name={name!r}) holds no column: name some, as fr.stack('i_*', name={name!r})"
        )
    given = [_checked(part) for part in listed(parts)]
    texts = [part for part in given if isinstance(part, str)]
    left_out = [text for text in texts if text.startswith("!")]
    if left_out and len(left_out) == len(texts) < len(given):
        first = left_out[0]
        raise TypeError(
            f"fr.stack: {first!r} leaves out of names and patterns beside it, and there are none: "
            f"write fr.stack('*', {first!r}, ...), or fr.col('*', {first!r}) with methods"
        )
    found: list[Column] = []
    for _, run in groupby(given, type):
        side_by_side = list(run)
        own = [part for part in side_by_side if isinstance(part, str)]
        found += [part for part in side_by_side if isinstance(part, Column)]
        if not set(own) <= set(left_out) or (own and left_out == texts):
            found.append(Column(*own, *(text for text in left_out if text not in own)))
    return Stack(tuple(found), name)


def _checked(part: object) -> str | Column:
    """A part that a matrix may have."""
    if not isinstance(part, Column):
        return checked_names("fr.stack", (part,), "names, patterns and fr.col(...)")[0]
    for said, method in ((part.tensor_name, "alias"), (part.rules.pad, "pad")):
        if said is not None:
            raise ValueError(f"fr.stack: {part.text} can't be a part of a matrix, with .{method}")
    return part

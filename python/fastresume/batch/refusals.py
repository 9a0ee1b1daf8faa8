"""What people do with a `Jagged` as with a tensor, and what to write instead."""

from __future__ import annotations

from typing import Any, NoReturn


class Refusals:
    """What a `Jagged` does not do, as an error that says what to write: its rows differ in length."""

    __slots__ = ()

    def _compute(self, _other: object) -> NoReturn:
        raise TypeError(
            "a Jagged compares with nothing: write jagged.values == 3, [text == 'a' for text in "
            "jagged.to_strings()], or "
            "torch.equal(a.values, b.values) and torch.equal(a.offsets, b.offsets)"
        )

    def _reckon(self, _other: object = None) -> NoReturn:
        raise TypeError(
            "a Jagged has no arithmetic: write jagged.values / 255 for the values of all rows, or "
            "jagged.to_padded() / 255 for a matrix; fr.col(name).fixed(k) is one where all rows have k values"
        )

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compute
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _reckon
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = _reckon
    __rmatmul__ = __neg__ = __abs__ = _reckon
    __hash__ = object.__hash__

    def __contains__(self, _value: object) -> NoReturn:
        raise TypeError(
            "a Jagged has rows, among which `in` finds nothing: write (jagged.values == 3).any(), or "
            "'a' in jagged.to_strings()"
        )

    def _be_array(self, *_arguments: object, **_options: object) -> NoReturn:
        raise TypeError(
            "a Jagged is no array, as its rows differ in length: write jagged.to_padded() for a matrix, "
            "jagged.values for the values of all rows, or jagged.to_list()"
        )

    __array__ = __dlpack__ = __dlpack_device__ = _be_array

    @classmethod
    def __torch_function__(cls, function: Any, *_arguments: object) -> NoReturn:
        """Torch's functions: what to write."""
        name = str(getattr(function, "__name__", function)).strip("_")
        way = "jagged.to_padded() for a matrix, or jagged.values for the values of all rows"
        if "embedding_bag" in name:
            way = "bag(jagged.values, jagged.offsets), of an EmbeddingBag with include_last_offset=True"
        raise TypeError(f"torch's {name} takes no Jagged, whose rows differ in length: write {way}")

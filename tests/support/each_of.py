"""`each_of`: many small cases as one test. pytest spends as long on a test as a small case takes."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from support.profile import one_in


def each_of(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Run a test for every case, each in a directory of its own; a failure tells its case.

    It takes what `pytest.mark.parametrize` does. Two of them run every pair. Of three and more, the run of a
    change takes half of the combinations, and every pair comes in these.
    """
    names = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    listed = [dict(zip(names, case if len(names) > 1 else (case,), strict=True)) for case in cases]
    assert listed, "no case is no test"

    def decorate(test: Callable[..., None]) -> Any:
        axes = [listed, *getattr(test, "axes", [])]
        of_one_case = getattr(test, "of_one_case", test)

        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            for number, parts in enumerate(chosen(axes)):
                given = {name: value for part in parts for name, value in part.items()}
                try:
                    of_one_case(**in_directory(fixtures, number), **given)
                except BaseException as error:
                    error.add_note(f"case {number}: {repr(given)[:1000]}")
                    raise

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in names]
        every.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        every.axes, every.of_one_case = axes, of_one_case  # type: ignore[attr-defined]
        return every

    return decorate


def chosen(axes: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    """The combinations that are run: all of them, or those of an even sum of places, where three may vary."""
    are_many = sum(len(axis) > 1 for axis in axes) > 2
    for places in itertools.product(*(range(len(axis)) for axis in axes)):
        if not are_many or sum(places) % one_in(2) == 0:
            yield tuple(axis[place] for axis, place in zip(axes, places, strict=True))


def in_directory(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    """The fixtures of a test, with the directory of one of its cases in the place of the test's own."""
    found = dict(fixtures)
    if isinstance(place := fixtures.get("tmp_path"), Path):
        found["tmp_path"] = place / str(number)
        found["tmp_path"].mkdir()
    if isinstance(place := fixtures.get("path"), Path) and not place.exists():
        found["path"] = place.parent / str(number) / place.name
        found["path"].parent.mkdir(exist_ok=True)
    return found

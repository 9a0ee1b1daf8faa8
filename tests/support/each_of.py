"""`each_of`: many small cases as one test. pytest spends as long on a test as a small case takes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def each_of(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Any]:
    """Run a test for every case, each in a directory of its own; a failure tells its case.

    It takes what `pytest.mark.parametrize` does. Two of them run every pair.
    """
    names = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else names
    listed = [case if len(names) > 1 else (case,) for case in cases]
    assert listed, "no case is no test"

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            for number, case in enumerate(listed):
                given = dict(zip(names, case, strict=True))
                try:
                    test(**in_directory(fixtures, number), **given)
                except BaseException as error:
                    error.add_note(f"case {number}: {repr(given)[:1000]}")
                    raise

        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in names]
        every.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return every

    return decorate


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

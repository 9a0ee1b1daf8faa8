"""Methods that answer yes or no."""

from __future__ import annotations

import functools
import inspect
from types import FunctionType, MethodType
from typing import Any


class Question:
    """A method that answers by a bool: `if preemption.is_due:` is an error, as any other method is true."""

    def __init__(self, method: FunctionType) -> None:
        self._method = method

    def __get__(self, of: Any, kind: type | None = None) -> Any:
        return self._method if of is None else _Asked(MethodType(self._method, of))


class _Asked:
    """A question of one object, which has an answer once it is called."""

    def __init__(self, method: MethodType) -> None:
        self._method = method
        functools.update_wrapper(self, method)

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._method(*args, **options)

    def __bool__(self) -> bool:
        name = self._method.__name__
        takes = "..." if len(inspect.signature(self._method).parameters) else ""
        raise TypeError(f"{name} is a method, and is true without its parentheses: write .{name}({takes})")

    def __repr__(self) -> str:
        return repr(self._method)

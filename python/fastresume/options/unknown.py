"""Arguments that there are not, and what to write instead."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, ParamSpec, TypeVar

import fastresume._core as _core
from fastresume.messages import bounded
from fastresume.options.checks import quoted

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Options = TypeVar("Options", bound=type)

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call."""


def takes_no_other(
    what: str,
    told: Mapping[str, str],
    of_today: Callable[[tuple[Any, ...], dict[str, Any]], Given] | None = None,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A decorator: the method, which refuses arguments that it has not.

    What it raises is a TypeError that names the first of them, and what to write instead. `of_today` gives
    the arguments by their names of today, where the method takes earlier ones.
    """

    def decorated(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        parameters = list(inspect.signature(function).parameters.values())[1:]  # without self
        takes_any = any(one.kind == one.VAR_POSITIONAL for one in parameters)
        there = [one.name for one in parameters if one.kind != one.VAR_POSITIONAL]
        placed = [one.name for one in parameters if one.kind == one.POSITIONAL_OR_KEYWORD]

        @functools.wraps(function)
        def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
            if len(args) > len(placed) + 1 and not takes_any:
                found = quoted(args[len(placed) + 1])
                if len(there) == len(placed):
                    raise TypeError(
                        f"{what} takes {', '.join(placed) or 'no argument'}, found {found} besides"
                    )
                raise TypeError(
                    f"{what} takes {', '.join(placed) or 'nothing'} without a name, found {found} besides: "
                    f"write its name, as {there[len(placed)]}={found}"
                )
            if of_today is not None:
                args, options = of_today(args, options)  # type: ignore[assignment]
            for name in options:
                if name not in there:
                    _refuse(what, name, told, there)
            return function(*args, **options)

        return call

    return decorated


def options(told: Mapping[str, str]) -> Callable[[Options], Options]:
    """A decorator: the class of options, which refuses arguments that it has not, as `takes_no_other`."""

    def decorated(cls: Options) -> Options:
        checked = takes_no_other(f"fr.{cls.__name__}", told)(cls.__init__)  # type: ignore[misc]
        cls.__init__ = checked  # type: ignore[misc]
        return cls

    return decorated


def refuse_attribute(of: object, name: str, what: str, told: Mapping[str, str]) -> NoReturn:
    """Refuses a method that there is not.

    Raises:
        AttributeError: naming it, and what to write instead.
    """
    hint = ""
    if name in told:
        hint = _instead(told[name])
    elif not name.startswith("_"):
        close = _core.nearest(name, [each for each in dir(of) if not each.startswith("_")])
        hint = "" if close is None else f": did you mean .{close}?"
    raise AttributeError(bounded(f"{what} has no attribute {name!r}{hint}"), name=name, obj=of)


def refuse_setting(of: object, name: str, value: object, told: Mapping[str, str]) -> None:
    """Refuses to set what is an argument of an object's class: it would change nothing.

    Other attributes are its user's own, and so are those of the user's own classes.

    Raises:
        AttributeError: naming it, and what to write instead.
    """
    kind: Any = type(of)
    if not kind.__module__.startswith("fastresume."):
        return
    there = _arguments(kind)
    close = name if name in there else _core.nearest(name, there)
    if name not in there and name in told:
        hint = _instead(told[name])
    elif close is not None:
        hint = f": write {kind.__name__}(..., {close}={quoted(value)})"
    else:
        return
    raise AttributeError(
        bounded(f".{name} = {quoted(value)} changes nothing in a {kind.__name__} that is made already{hint}"),
        name=name,
        obj=of,
    )


@functools.cache
def _arguments(kind: Any) -> list[str]:
    """The names of the arguments that a class takes."""
    return list(inspect.signature(kind).parameters)


def _instead(told: str) -> str:
    """What to write, in words that follow a name."""
    needless = told.removeprefix("nothing: ")
    return f": write {told}" if needless == told else f", and needs none: {needless}"


def _refuse(what: str, name: str, told: Mapping[str, str], there: list[str]) -> NoReturn:
    if name in told:
        raise TypeError(f"{what} has no argument {name}={_instead(told[name])}")
    close = _core.nearest(name, there)
    listed = f"there are {', '.join(there)}" if there else "it takes none"
    hint = f"; {listed}" if close is None else f": did you mean {close}=?"
    raise TypeError(f"{what} has no argument {name}={hint}")

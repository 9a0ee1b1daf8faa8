"""Arguments that there are not, and what to write instead."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, NoReturn, TypeVar

import fastresume._core as _core
from fastresume.messages import bounded, bounds_messages
from fastresume.options.checks import quoted, truth
from fastresume.options.elsewhere import elsewhere
from fastresume.options.hints import EXAMPLES, OF_CALLS, SEVERAL
from fastresume.options.question import Question

Called = TypeVar("Called", bound=Callable[..., Any])

OfToday = Callable[[tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
"""The arguments of a call by their names of today."""

_OPERATORS = {"__init__", "__call__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
"""The special methods of a class that take what a user passes."""


def takes_no_other(
    what: str, held: str | None = None, of_today: OfToday | None = None
) -> Callable[[Called], Called]:
    """A decorator: the function, which refuses a call that does not fit it; of a class, each of its methods.

    Its objects say where a name is that they have not, and methods that return a bool have no truth.

    What it raises is a TypeError that names the argument, and what to write instead. All other messages are
    bounded. Arguments are looked at only once a call has failed; only bools are before: a text is true.

    Args:
        what: the name of the function or class, by which `OF_CALLS` and `EXAMPLES` have words for it.
        held: what an object of the class is called, before the names of its methods; None for `what`.
        of_today: gives the arguments by their names of today, where the function takes earlier ones.
    """

    def decorated(given: Called) -> Called:
        if not isinstance(given, type):
            function: Called = _checked(given, what, of_today)
            return function
        for name, member in list(vars(given).items()):
            if name.startswith("_") and name not in _OPERATORS:
                continue
            if isinstance(member, FunctionType):
                made = name == "__init__"
                of = what if made else f"{held or what}.{name}".removesuffix(".__call__")
                checked = _checked(member, of, of_today if made else None)
                answers = member.__annotations__.get("return") == "bool" and name not in _OPERATORS
                setattr(given, name, Question(checked) if answers else checked)
            elif isinstance(member, classmethod | staticmethod):
                setattr(given, name, type(member)(_checked(member.__func__, f"{what}.{name}")))
        if not hasattr(given, "__getattr__"):
            given.__getattr__ = _refuse_name  # type: ignore[attr-defined]  # of no use to who checks types
        return given

    return decorated


def _checked(function: Any, what: str, of_today: OfToday | None = None) -> Any:
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    kinds = [function.__annotations__.get(name) for name in names]
    bools = [(number, kind) for number, kind in enumerate(kinds) if kind in ("bool", "bool | None")]

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if of_today is not None:
            args, options = of_today(args, options)
        for number, kind in bools if len(args) <= code.co_argcount else ():
            value = args[number] if number < len(args) else options.get(names[number], False)
            is_none = value is None and kind == "bool"
            if is_none or isinstance(value, str | int | float):  # "false" of a file of options is true
                truth(names[number], value)
        try:
            return function(*args, **options)
        except TypeError:
            _check_call(what, inspect.signature(function), args, options)
            raise

    return bounds_messages(call)


def _check_call(
    what: str, signature: inspect.Signature, args: tuple[Any, ...], options: Mapping[str, Any]
) -> None:
    """Refuses arguments that do not fit.

    Raises:
        TypeError: naming one of them, and what to write instead.
    """
    try:
        signature.bind(*args, **options)
        return
    except TypeError:
        parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls", "_cls"):  # "_cls" of a named tuple
        if not args:
            raise TypeError(f"{what} is of an object, and was called on its class: make one first") from None
        parameters, args = parameters[1:], args[1:]
    kinds = {one.kind for one in parameters}
    there = [one.name for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    placed = [one.name for one in parameters if one.kind == one.POSITIONAL_OR_KEYWORD]
    named = [*placed[: len(args)], *options]
    unknown = [name for name in options if name not in there and inspect.Parameter.VAR_KEYWORD not in kinds]
    example = f": write {EXAMPLES[what]}" if what in EXAMPLES else ""
    if unknown:
        wrong = _unknown(unknown[0], OF_CALLS.get(what, {}), there)
    elif len(args) > len(placed) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        found = quoted(args[len(placed)])
        free = [name for name in there if name not in named]
        others = " by position" if len(there) > len(placed) else ""
        takes = ", ".join(placed) or ("nothing" if others else "no argument")
        takes = f"only {takes}" if placed and others else takes
        likely = [each for each in free if _is_of(args[len(placed)], signature.parameters[each].annotation)]
        name = f": write its name, as {likely[0]}={found}" if likely else ""
        if free and not likely:
            name = f": write the name of an argument, of {', '.join(free)}"
        if likely and signature.parameters[likely[0]].default is inspect.Parameter.empty:
            example = _named(what, args[: len(placed)], likely[0], found)
        if what in SEVERAL and type(args[1]) is type(args[0]):
            name = f": write {SEVERAL[what]}"
        wrong = f"takes {takes}{others}, found {found} too{example or name}"
    elif twice := [name for name in placed[: len(args)] if name in options]:
        found = f"{quoted(args[placed.index(twice[0])])} and {twice[0]}={quoted(options[twice[0]])}"
        wrong = f"takes {twice[0]} once, found {found}"
    else:
        needed = [one.name for one in parameters if one.name in there and one.default is one.empty]
        lacking = [name for name in needed if name not in named]
        some = [one for one in parameters if one.kind == one.VAR_POSITIONAL]
        fits = [_is_of(args[-1], one.annotation) for one in (*some, signature.parameters[lacking[0]]) if args]
        if fits == [False, True]:
            example = _named(what, args[:-1], lacking[0], quoted(args[-1]))
        wrong = f"lacks {', '.join(lacking)}{example or f': write {lacking[0]}=...'}"
    raise TypeError(f"{what} {wrong}") from None


def _named(what: str, args: tuple[Any, ...], name: str, found: str) -> str:
    """What to write instead of a call whose last argument lacks its name."""
    return f": write {what}({', '.join([*map(quoted, args), f'{name}={found}'])})"


def _refuse_name(of: object, name: str) -> NoReturn:
    kind = type(of).__name__
    refuse_attribute(of, name, f"{'an' if kind[0] in 'AEIO' else 'a'} {kind}", {})


def _is_of(value: object, annotation: object) -> bool:
    """Whether an annotation names the type of a value; a list is of columns."""
    word = "Columns" if isinstance(value, list | tuple) else type(value).__name__
    return re.search(rf"\b{re.escape(word)}\b", str(annotation)) is not None


def refuse_attribute(
    of: object, name: str, what: str, hints: Mapping[str, str], there: Iterable[str] = ()
) -> NoReturn:
    """Refuses a name that there is not.

    Args:
        of: what was asked.
        name: for what.
        what: what it is, in words.
        hints: what to write instead, by names.
        there: the names that there are, which are listed where nothing else is known.

    Raises:
        AttributeError: naming it, and what to write instead.
    """
    hint = ""
    if name in hints:
        hint = _instead(hints[name])
    elif (way := elsewhere(of, name)) is not None:
        hint = _instead(way)
    elif not name.startswith("_"):
        close = _core.nearest(name, [each for each in dir(of) if each != name and not each.startswith("_")])
        listed = ", ".join(there)
        hint = f"; there are: {listed}" if listed else ""
        hint = hint if close is None else f": did you mean .{close}?"
    raise AttributeError(bounded(f"{what} has no attribute {name!r}{hint}"), name=name, obj=of)


def refuse_setting(of: object, name: str, value: object, hints: Mapping[str, str]) -> None:
    """Refuses to set an argument of an object's class, or a name of another one: it would change nothing.

    Other attributes are its user's own, and so are those of the user's own classes.

    Raises:
        AttributeError: naming it, and what to write instead.
    """
    kind: Any = type(of)
    if not kind.__module__.startswith("fastresume."):
        return
    there = _arguments(kind)
    close = name if name in there else _core.nearest(name, there)
    if name in hints:
        hint = _instead(hints[name])
    elif not hasattr(kind, name) and name not in there and (way := elsewhere(of, name)) is not None:
        hint = f": it is {way}"
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


def _instead(hint: str) -> str:
    """What to write, in words that follow a name."""
    needless = hint.removeprefix("nothing: ")
    return f": write {hint}" if needless == hint else f", and needs none: {needless}"


def _unknown(name: str, hints: Mapping[str, str], there: list[str]) -> str:
    """The words for an argument that there is not."""
    if name in hints:
        return f"has no argument {name}={_instead(hints[name])}"
    close = _core.nearest(name, there)
    listed = f"there are {', '.join(there)}" if there else "it takes none"
    return f"has no argument {name}={f'; {listed}' if close is None else f': did you mean {close}=?'}"

"""What is asked of columns, as expressions: rules of nulls by names and patterns, and matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import fastresume as fr


def with_nulls(column: fr.Column, rule: Any) -> fr.Column:
    """The expression with what becomes of its nulls: "error", "mask" or a value."""
    if rule == "mask":
        return column.mask_null()
    return column if isinstance(rule, str) and rule == "error" else column.fill_null(rule)


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern of names."""
    return any(letter in name for letter in "*?[")


def asked(
    nulls: Any = "error",
    stack: Mapping[str, str | Sequence[str]] | None = None,
    columns: Sequence[str | fr.Column] = ("*",),
) -> dict[str, Any]:
    """The arguments of a dataset that ask for rules of nulls, and for matrices behind the other tensors.

    A rule is one for all columns, or one each by names and patterns, of which a name wins.
    """
    stacks = {name: [of] if isinstance(of, str) else list(of) for name, of in (stack or {}).items()}
    taken = [f"!{member}" for members in stacks.values() for member in members]
    if not isinstance(nulls, Mapping):
        if nulls in ("error", "mask") and not stacks and tuple(columns) == ("*",):
            return {"nulls": nulls}
        nulls = {"*": nulls}
    members = {member for of in stacks.values() for member in of}
    names = [name for name in nulls if name not in stacks and name not in members]

    def rule_of(name: str) -> Any:
        return nulls.get(name, nulls.get("*", "error"))

    def is_in_masked(name: str) -> bool:
        return any(name.startswith(f"{other}.") and nulls[other] == "mask" for other in names)

    matrices = [fr.stack(with_nulls(fr.col(*of), rule_of(name)), name=name) for name, of in stacks.items()]
    made = []
    for name in names:
        rule = nulls[name]
        # A struct that is masked takes along its members that are; each column is named once.
        if rule == "mask" and is_in_masked(name):
            continue
        own = [other for other in names if other.startswith(f"{name}.")]
        left_out = [other for other in own if not (rule == "mask" and nulls[other] == "mask")]
        along = [other for other in own if other not in left_out]
        if is_pattern(name):
            left_out = [other for other in names if other != name]
        column = fr.col(
            name, *along, *(f"!{other}" for other in left_out), *(taken if is_pattern(name) else [])
        )
        if not (isinstance(rule, str) and rule == "error"):
            made.append(with_nulls(column, rule))
    return {"columns": [*columns, *taken, *matrices, *made]}

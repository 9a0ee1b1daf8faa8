"""An expression of what is said of a column, and what a batch holds of it, as the oracle says that."""

from __future__ import annotations

import torch

import fastresume as fr
from support.oracle import expressions as oracle
from support.oracle.expressions import Said


def expression(name: str, said: Said) -> fr.Column:
    """The expression that says it."""
    column = fr.col(name)
    for method, arguments in said.items():
        if method == "pad":
            column = column.pad(*arguments[:3], side=arguments[3])
        elif method == "cast":
            column = column.cast(arguments[0], rounding=len(arguments) > 1)
        else:
            column = getattr(column, method)(*arguments)
    return column


def cells(tensor: torch.Tensor) -> list[bytes]:
    """The bytes of each row of a tensor."""
    flat = tensor.reshape(len(tensor), -1) if len(tensor) else tensor.reshape(0, 1)
    return [row.contiguous().view(torch.uint8).numpy().tobytes() for row in flat]


def found(batch: fr.Batch, name: str) -> oracle.Made:
    """What a batch has of a column, as the oracle says it."""
    tensor = batch[name]
    if isinstance(tensor, fr.Jagged):
        return of_jagged(tensor, "")
    made = {"": cells(tensor)}
    for end in ("_valid", "_length", "_values_valid"):
        if name + end in batch:
            made[end] = (
                batch[name + end].flatten(1).tolist()
                if end == "_values_valid"
                else batch[name + end].tolist()
            )
    return made


def of_jagged(jagged: fr.Jagged, name: str) -> oracle.Made:
    """The same of a Jagged, level by level."""
    made: oracle.Made = {f"{name}.lengths": jagged.offsets.diff().tolist()}
    if jagged.valid is not None:
        made[f"{name}.valid"] = jagged.valid.tolist()
    if jagged.values_valid is not None:
        marks = jagged.values_valid
        made[f"{name}.values_valid"] = (marks.flatten(1) if marks.ndim > 1 else marks).tolist()
    if isinstance(jagged.values, fr.Jagged):
        return {**made, **of_jagged(jagged.values, f"{name}.values")}
    return {**made, f"{name}.values": cells(jagged.values)}

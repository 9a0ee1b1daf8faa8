"""Where documents end in packed sequences, for attention that keeps them apart."""

from __future__ import annotations

import torch
from torch import Tensor

from fastresume.options.checks import quoted
from fastresume.options.unknown import takes_no_other


@takes_no_other("fr.cu_seqlens")
def cu_seqlens(document: Tensor) -> Tensor:
    """Where each document begins among the tokens of all sequences, then their number: int32 `[n + 1]`.

    As attention over variable lengths takes it, over `[B * length]` tokens. A document that continues in
    the next sequence starts over there; padding is a stretch of its own.

    Args:
        document: int32 `[B, length]`, `batch["document"]`; on any device, which the result is on. Where
            the inputs are `tokens[:, :-1]`, it is `document[:, :-1]`.

    Raises:
        ValueError: if it is something else, as `batch["tokens"]` is: in each row documents are numbered from
            0, one after another, and -1 fills up.

    Examples:
        >>> import torch
        >>> cu_seqlens(torch.tensor([[0, 0, 1], [0, 0, 0]], dtype=torch.int32))
        tensor([0, 2, 3, 6], dtype=torch.int32)
    """
    if getattr(document, "ndim", None) != 2 or document.dtype != torch.int32:
        found = quoted(document)
        if isinstance(document, Tensor):
            found = f"{str(document.dtype).removeprefix('torch.')} {list(document.shape)}"
        raise ValueError(f"document must be batch['document'], int32 [B, length], found {found}")
    begins = torch.ones_like(document, dtype=torch.bool)
    begins[:, 1:] = document[:, 1:] != document[:, :-1]
    # The number of a document is how many began before it in its row; what fills up comes last.
    numbers = begins.cumsum(1, dtype=document.dtype) - 1
    if not bool(((document == numbers) | (document == -1)).all()):
        raise ValueError(
            "document must be batch['document'], whose rows count documents from 0, found other numbers: of "
            "inputs tokens[:, :-1] it is document[:, :-1], and never document[:, 1:]"
        )
    places = begins.flatten().nonzero().flatten()
    return torch.cat([places, places.new_tensor([document.numel()])]).to(torch.int32)

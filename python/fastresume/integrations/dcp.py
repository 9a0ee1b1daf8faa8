"""For `torch.distributed.checkpoint`: the value to put into the mapping that is saved."""

from __future__ import annotations

from torch.distributed.checkpoint.stateful import Stateful

from fastresume.integrations.resume_state import ResumeState as _ResumeState


class ResumeState(_ResumeState, Stateful):
    """The state of the batch that was trained last, as a `Stateful` at the top of a checkpoint's mapping.

    One leaf of text, there from the first save on: a cached plan never loses or cuts it, and whichever rank's
    copy is written is the global one. `dcp.load` fills it on any number of ranks.

    Examples:
        >>> import torch.distributed.checkpoint as dcp
        >>> state = ResumeState(loader)
        >>> dcp.load({"data": state}, checkpoint_id="checkpoint")  # doctest: +SKIP
        >>> for batch in loader:
        ...     train(batch)
        ...     state.trained(batch)
        >>> dcp.save({"data": state}, checkpoint_id="checkpoint")  # doctest: +SKIP
    """

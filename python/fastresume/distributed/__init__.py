"""The ranks of a job, which must agree on what they do."""

from fastresume.distributed.same_state import check_same

__all__ = ["check_same"]

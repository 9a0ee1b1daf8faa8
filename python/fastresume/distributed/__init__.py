"""Ranks that must agree."""

from fastresume.distributed.same_state import check_same

__all__ = ["check_same"]

"""What ranks do together: open a dataset once for all of them, and check that all load the same state."""

from fastresume.agreement.same_state import check_same
from fastresume.distributed.opening import open  # noqa: A004  (fastresume.distributed.open, as users call it)

__all__ = ["check_same", "open"]

"""What ranks do together: open a dataset once for all of them, and check that all load the same state."""

from fastresume.agreement.same_state import check_same

# `fastresume.distributed.open`, as users call it.
from fastresume.distributed.opening import open as open  # noqa: A004

__all__ = ["check_same"]  # `from fastresume.distributed import *` leaves Python's own `open` as it is

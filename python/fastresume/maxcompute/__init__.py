"""MaxCompute tables as sources of rows: sessions that ranks share, and that a state names."""

from fastresume.maxcompute.opening import open as open  # noqa: A004  (fr.maxcompute.open, as users call it)
from fastresume.maxcompute.source import MaxComputeSource

__all__ = ["MaxComputeSource"]  # `import *` leaves Python's own `open` as it is

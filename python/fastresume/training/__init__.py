"""Parts of a training loop that have to know where the data stands: accumulation, evaluation, preemption.

See docs/TRAINING.md, and examples/train.py for all of them in one loop.
"""

from fastresume.training.accumulation import Accumulation, Window, accumulate

__all__ = ["Accumulation", "Window", "accumulate"]

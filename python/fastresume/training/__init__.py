"""Parts of a training loop that must know the position in the data: accumulation, evaluation, preemption.

See docs/how-to/training.md, and examples/train.py for all of them in one loop.
"""

from fastresume.training.accumulation import Accumulation, Window, accumulate
from fastresume.training.evaluator import Evaluator
from fastresume.training.preemption import INTERRUPTED, RESUMABLE, Preemption

__all__ = ["INTERRUPTED", "RESUMABLE", "Accumulation", "Evaluator", "Preemption", "Window", "accumulate"]

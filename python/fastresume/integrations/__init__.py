"""What frameworks are given so that they save and restore the place of the batch that was trained.

One small module for each: `lightning`, `accelerate`, `transformers`, and `dcp` for
`torch.distributed.checkpoint`. Each imports its framework, and nothing else of fastresume imports any.
"""

from importlib import import_module
from typing import TYPE_CHECKING

_MODULES = ("accelerate", "dcp", "lightning", "resume_state", "transformers")

if not TYPE_CHECKING:

    def __getattr__(name):
        """The module of a framework, imported."""
        if name not in _MODULES:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}; there are {', '.join(_MODULES)}"
            )
        return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return [*_MODULES]

"""How thorough a run is, by FASTRESUME_PROFILE: that of a change, all tests before a release, a soak."""

from __future__ import annotations

import os

_NAME = os.environ.get("FASTRESUME_PROFILE", "dev")

SOAK = _NAME == "soak"
"""Whether the run may take hours."""


def one_in(count: int) -> int:
    """The stride at which cases are tried: `count` in the run of a change, else 1, which is all of them."""
    return 1 if SOAK or _NAME == "all" else count

"""What the packages that read tables say where they fail, as one error."""

from __future__ import annotations

import re
from typing import NoReturn

import fastresume._core as _core

LONGEST = 500
"""A message quotes this many characters of what a package or a server says."""

NOISE = re.compile(r"\x1b\[\d*m|\s*(stack backtrace:)?\n +0: <.*|\s+Error: Os \{.*", re.DOTALL)
"""Colours, and what follows the message of an error of Rust: backtraces, and its causes as code."""


def fail(what: str, cause: Exception) -> NoReturn:
    """Raises the error for what could not be done, with the beginning of what the cause says.

    What a server sent that is no error of a table is left out: such a page may be long, and may repeat what
    it was asked, token and all.

    Raises:
        SourceError: from the cause, if that says nothing that was left out.
    """
    text = str(cause) or type(cause).__name__
    page = getattr(getattr(cause.__cause__, "response", None), "text", "")
    whole = text.replace(page, f"<{len(page)} characters>") if page else text
    quiet = NOISE.sub("", whole)
    short = quiet if len(quiet) <= LONGEST else f"{quiet[:LONGEST]}..."
    raise _core.SourceError(f"{what}: {short}") from (cause if whole == text else None)

"""What fails on one rank: how it is shown where it arose, and what is kept of it."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Callable
from functools import partial

import pytest

import fastresume as fr
from fastresume.agreement.peers import Peers
from fastresume.checkpoint import CheckpointError
from fastresume.checkpoint.ranks import Ranks
from support.each_of import each_of


class NarrowError(ValueError):
    """A refusal with more to it than its text."""


def refused(error: type[Exception]) -> None:
    raise error("x was 3, and is 4")


def shown(peers: Peers, work: Callable[[], object]) -> str:
    """What a user sees of an error."""
    try:
        peers.all("save", work)
    except Exception:  # noqa: BLE001  (is shown)
        return traceback.format_exc()
    raise AssertionError("it did not fail")


@each_of(
    "error",
    [
        TypeError,
        NarrowError,
        fr.StateError,
        fr.DataError,
        fr.SourceError,
        fr.FastresumeError,
        CheckpointError,
    ],
)
@each_of("peers", [Peers(), Ranks(None, 60)])
def test_a_refusal_is_shown_once_as_it_is_and_where_it_arose(peers: Peers, error: type[Exception]) -> None:
    for text in (
        shown(peers, lambda: refused(error)),
        shown(peers, lambda: peers.lead("x", lambda: refused(error))),
    ):
        assert text.count("Traceback") == 1
        assert text.count("x was 3, and is 4\n") == 1
        assert text.endswith(f"{error.__name__}: x was 3, and is 4\n")
        assert "in refused" in text


def test_what_nobody_had_foreseen_is_the_cause_of_what_is_raised() -> None:
    for peers, kind in ((Peers(), fr.FastresumeError), (Ranks(None, 60), CheckpointError)):
        with pytest.raises(kind, match=r"^save: ZeroDivisionError: ") as failed:
            peers.all("save", lambda: 1 // 0)
        assert type(failed.value) is kind
        assert isinstance(failed.value.__cause__, ZeroDivisionError)
        assert traceback.extract_tb(failed.value.__cause__.__traceback__)[-1].line is not None


def test_an_error_that_was_caught_holds_on_to_nothing() -> None:
    class Large:
        pass

    kept: list[weakref.ref[Large]] = []

    def fail(error: type[Exception]) -> None:
        large = Large()
        kept.append(weakref.ref(large))
        raise error

    gc.disable()
    try:
        for error in (ValueError, OSError):
            assert "in fail" in shown(Ranks(None, 60), partial(fail, error))
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()

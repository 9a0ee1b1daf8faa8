"""What a service does wrong: no row is lost or comes twice, and one error says it without a secret."""

from __future__ import annotations

import itertools
import json
import logging
import pickle
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.maxcompute.account import Account, Keys
from fastresume.maxcompute.keeper import wait_seconds
from maxcompute.conftest import Open
from support.arrow_rows import numbers_in
from support.maxcompute_server import KEYS, MaxCompute, Request

GIVEN: dict[str, Any] = {"batch_size": 500, "tail": "short", "world": (0, 1)}
ROWS = 70_000
SECRETS = (KEYS["access_id"], KEYS["access_key"], "token-1", "token-2")


def numbered(rows: int) -> pa.Table:
    return pa.table({"x": range(rows)})


def in_turn(*answers: Callable[[Request, pa.Table, MaxCompute], Any]) -> Any:
    """One answer after another, for ever; each but the last of them is wrong."""
    turns = itertools.cycle(answers)

    def answer(request: Request, rows: pa.Table, service: MaxCompute) -> bool:
        next(turns)(request, rows, service)
        return True

    return answer


def ending(end: str) -> Callable[[Request, pa.Table, MaxCompute], None]:
    return lambda request, rows, service: service.give(request, rows, end)


def whole(request: Request, rows: pa.Table, service: MaxCompute) -> None:
    service.give(request, rows)


def refused(status: int) -> Callable[[Request, pa.Table, MaxCompute], None]:
    return lambda request, rows, service: request.refuse(status, "Refused", "not now")


def fewer(request: Request, rows: pa.Table, service: MaxCompute) -> None:
    service.give(request, rows.slice(0, max(rows.num_rows // 2, 1)))


def empty(request: Request, rows: pa.Table, service: MaxCompute) -> None:
    service.give(request, rows.slice(0, 0))


def nothing(request: Request, rows: pa.Table, service: MaxCompute) -> None:
    request.say(200, b"")


@pytest.mark.parametrize(
    "fault",
    [
        *(ending(end) for end in ("at a message", "in a message", "reset", "slowly")),
        *(refused(status) for status in (403, 429, 500, 503)),
        fewer,
        empty,
        nothing,
        lambda request, rows, service: request.reset(),
    ],
)
def test_answers_that_fail_or_end_early_lose_no_row_and_repeat_none(
    service: MaxCompute, opens: Open, fault: Any
) -> None:
    dataset = fr.ArrowDataset(opens(service.put("clicks", numbered(ROWS))), **GIVEN)
    service.fault = in_turn(fault, whole)
    with fr.Loader(dataset, threads=2) as loader:
        found = numbers_in(loader)
    (session,) = service.sessions.values()
    assert found == session.rows["x"].to_pylist()


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            lambda request, rows, service: service.give(request, pa.concat_tables([rows, rows])),
            fr.DataError,
            "more than",
        ),
        (empty, fr.SourceError, "ended early, again and again"),
        (refused(403), fr.SourceError, "403 .*not now"),
        (refused(429), fr.SourceError, "429 .*not now"),
        (
            lambda request, rows, service: service.give(request, rows.rename_columns(["y"])),
            fr.DataError,
            "no column 'x'",
        ),
        (
            lambda request, rows, service: service.give(request, pa.table({"x": ["a"] * rows.num_rows})),
            fr.DataError,
            "other types",
        ),
    ],
)
def test_what_stays_wrong_is_one_error_after_which_the_dataset_is_usable(
    service: MaxCompute, opens: Open, answer: Any, kind: Any, message: str
) -> None:
    dataset = fr.ArrowDataset(opens(service.put("clicks", numbered(20))), **GIVEN)
    service.fault = in_turn(answer)
    with pytest.raises(kind, match=message):
        list(dataset)
    service.fault = None
    assert sorted(numbers_in(dataset)) == list(range(20))


def test_a_session_that_ends_while_it_is_read_is_named_at_once(service: MaxCompute, opens: Open) -> None:
    nothing_ahead = {**GIVEN, "read_bytes": 1}
    dataset = fr.ArrowDataset(opens(service.put("clicks", numbered(ROWS))), **nothing_ahead)
    batches = iter(dataset)
    state = next(batches).state_dict()
    service.expire()
    with pytest.raises(fr.SourceError, match=r"session 202601010000session .* has ended.*same_order=True"):
        list(batches)
    assert len(service.kinds("rows")) == 2  # asked once more than it was given
    assert dataset.state_dict() != state  # what was decoded was delivered


@pytest.mark.parametrize("kind", ["open", "session"])
@pytest.mark.parametrize("status", [429, 503, 403])
def test_the_service_may_be_away_while_sessions_begin(
    service: MaxCompute, opens: Open, kind: str, status: int
) -> None:
    service.refuses[kind] = [status] * 3
    source = opens(service.put("clicks", numbered(10)))
    assert [segment.rows for segment in source.segments()] == [10]


def test_what_is_not_there_is_an_error_at_once(service: MaxCompute, opens: Open) -> None:
    address = service.put("clicks", {"ds=1": numbered(10)})
    with pytest.raises(fr.SourceError, match="can't look up odps://shop/tables/views: 404"):
        opens("odps://shop/tables/views")
    with pytest.raises(fr.SourceError, match=r"can't open a session of .*/ds=2: 404 .*no partition ds=2"):
        opens("odps://shop/tables/clicks/ds=2")
    service.put("views", pa.table({"y": range(10)}))
    with pytest.raises(fr.DataError, match="has other columns than"):
        opens([address, "odps://shop/tables/views"])


def test_tokens_that_expire_are_asked_for_again(service: MaxCompute, opens: Open) -> None:
    given: list[str] = []

    def credentials() -> dict[str, Any]:
        given.append(f"token-{len(given)}")
        service.tokens = {given[-1]}
        return {**KEYS, "sts_token": given[-1], "expiration": time.time() + 3600}

    dataset = fr.ArrowDataset(opens(service.put("clicks", numbered(ROWS)), credentials=credentials), **GIVEN)
    assert given == ["token-0"]
    service.tokens = {"token-1"}  # that one has expired, before its time
    assert sorted(numbers_in(dataset)) == list(range(ROWS))
    assert given == ["token-0", "token-1"]


def test_keys_that_several_threads_saw_refused_are_asked_for_once() -> None:
    made = (Keys(f"id-{number}", "key") for number in range(9))
    account = Account(lambda: {"access_id": next(made).access_id, "access_key": "key"}, None)
    account.keys()
    with ThreadPoolExecutor(3) as pool:
        all_have_keys = threading.Barrier(3)

        def refused() -> str:
            account.keys()
            all_have_keys.wait()
            account.forget()
            return account.keys().access_id

        assert [each.result() for each in [pool.submit(refused) for _ in range(3)]] == ["id-1"] * 3


def test_keys_are_asked_for_before_they_expire() -> None:
    asked: list[float] = []

    def credentials() -> dict[str, Any]:
        asked.append(time.time() + (100 if not asked else 3600))
        return {"AccessKeyId": "a", "AccessKeySecret": "b", "Expiration": asked[-1]}

    account = Account(credentials, None)
    assert [account.keys().expires for _ in range(3)] == [asked[0], asked[1], asked[1]]


def test_keys_are_found_where_torcheasyrec_finds_them(
    service: MaxCompute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="no keys of MaxCompute were found: set ODPS_CONFIG_FILE_PATH"):
        Account(None, None).keys()
    lines = "access_id={}\naccess_key = b\nend_point=http://there/api\nproject_name=p\n"
    (tmp_path / ".odps_config.ini").write_text(lines.format("own"))  # of the home directory
    assert Account(None, None).keys() == Keys("own", "b", None, None, "http://there/api")
    assert Account(None, None).endpoint == "http://there/api"
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "key")
    monkeypatch.setenv("ALIBABA_CLOUD_SECURITY_TOKEN", "token")
    assert Account(None, None).keys() == Keys("id", "key", "token")
    service.credentials = {
        "Code": "Success",
        "AccessKeyId": "served",
        "AccessKeySecret": "key",
        "SecurityToken": "token",
        "Expiration": "2033-05-18T03:33:20Z",
    }
    monkeypatch.setenv("ALIBABA_CLOUD_CREDENTIALS_URI", f"{service.endpoint}/credentials")
    assert Account(None, None).keys() == Keys("served", "key", "token", 2_000_000_000.0)
    named = tmp_path / "named.ini"
    named.write_text(lines.format("named"))
    monkeypatch.setenv("ODPS_CONFIG_FILE_PATH", str(named))
    assert Account(None, None).keys().access_id == "named"
    assert Account({"access_id": "mine", "access_key": "b"}, "http://here").endpoint == "http://here"
    with pytest.raises(ValueError, match="nothing tells where MaxCompute is"):
        _ = Account({"access_id": "mine", "access_key": "b"}, None).endpoint


def test_no_secret_is_told(service: MaxCompute, opens: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    keys = {**KEYS, "sts_token": "token-1"}
    source = opens(service.put("clicks", numbered(20)), credentials=keys)
    dataset = fr.ArrowDataset(source, **GIVEN)
    found = [repr(source), repr(dataset), json.dumps(dataset.state_dict()), str(dataset.config())]
    found += [repr(Account(keys, None)), repr(Keys("a", "b", "token-1"))]
    found += [pickle.dumps(source).decode("latin-1"), pickle.dumps(dataset).decode("latin-1")]
    service.tokens = {"another"}  # the service tells the token that it refuses
    with pytest.raises(fr.SourceError, match=r"403 .*has expired") as error:
        list(dataset)
    found.append("".join(traceback_of(error.value)))
    with pytest.raises(fr.SourceError, match="403") as error:
        opens("odps://shop/tables/clicks", credentials=keys)
    found.append("".join(traceback_of(error.value)))
    for wrong in ({"access_id": "token-1"}, "token-2", lambda: 1 / 0, lambda: {"token": "token-2"}):
        with pytest.raises((TypeError, ValueError, fr.SourceError)) as error:
            opens("odps://shop/tables/clicks", credentials=wrong)
        found.append("".join(traceback_of(error.value)))
    found.append(caplog.text)
    assert not [(secret, text) for secret in SECRETS for text in found if secret in text]


def traceback_of(error: BaseException) -> list[str]:
    """What is shown of an error, without the lines of this file."""
    import traceback

    found = traceback.TracebackException.from_exception(error)
    each = [found]
    while each[-1].__cause__ or (each[-1].__context__ and not each[-1].__suppress_context__):
        each.append(each[-1].__cause__ or each[-1].__context__)  # type: ignore[arg-type]
    return [line for one in each for line in one.format_exception_only()]


def test_a_session_is_refreshed_before_it_ends(service: MaxCompute, opens: Open) -> None:
    service.lives_seconds = 3.0
    source = opens(service.put("clicks", numbered(10)))
    assert service.refreshed.wait(100)
    assert len(source.segments()) == 1  # it is kept as long as the source is there
    assert wait_seconds(86400.0, 0.0) == 3600.0
    assert wait_seconds(4000.0, 3000.0) == 500.0
    assert wait_seconds(None, 0.0) == 3600.0


def test_ranks_without_a_process_group_are_refused(opens: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"init_process_group before fr\.maxcompute\.open"):
        opens("odps://shop/tables/clicks")


def test_arguments_of_others_say_what_to_write(opens: Open) -> None:
    with pytest.raises(TypeError, match="write by_partition=True"):
        opens("odps://shop/tables/clicks", is_orderby_partition=True)
    with pytest.raises(ValueError, match="compression must be"):
        opens("odps://shop/tables/clicks", compression="LZ4_FRAME")

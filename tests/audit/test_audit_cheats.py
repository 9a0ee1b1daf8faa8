"""The audit finds whatever was lost, repeated, forged or left out."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fastresume.audit.log_format import HEADER, MAGIC
from fastresume.audit.verify import audit
from support.audits import (
    ORDERS,
    ROWS,
    SHUFFLE,
    Ranks,
    assert_proven,
    bodies,
    forge,
    found_in,
    log_of,
    text_of,
    write_bodies,
)
from support.profile import one_in
from support.topologies import Shuffle


@ORDERS
def test_a_log_that_is_missing(data: Path, logs: Path, shuffle: Shuffle | None) -> None:
    state = Ranks(data, logs, shuffle=shuffle).steps(20)
    Ranks(data, logs, 3, shuffle=shuffle, state=state).finish()
    missing = log_of(logs, 1)
    missing.unlink()
    said = found_in(logs)
    assert "problem: pass 0, batch 0: rank 1 of 2 never delivered it" in said
    assert "problem: pass 0 was finished, but the logs do not show how" in said
    if shuffle is None:
        # With 2 lanes of 60 batches, rank 1 had rows 600 to 799: the start of the second file.
        assert "part-001.parquet: row group 0: rows 0-199 never delivered" in said
    else:
        assert said.count("never delivered") > 10
        assert "... and more" in said


@pytest.mark.parametrize("nth", [0, 1])
def test_a_log_that_is_missing_while_no_pass_is_finished(data: Path, logs: Path, nth: int) -> None:
    state = Ranks(data, logs).steps(20)
    Ranks(data, logs, 4, state=state).steps(3)
    (log_of(logs, 0) if nth == 0 else log_of(logs, 3)).unlink()
    assert f"rank {nth * 3} of {2 + nth * 2} never delivered it" in found_in(logs)


@pytest.mark.parametrize("place", [1, 5, 8])
def test_a_record_that_is_cut_out(data: Path, logs: Path, place: int) -> None:
    Ranks(data, logs).finish()
    path = log_of(logs, 1)
    data_of = path.read_bytes()
    found = [MAGIC]
    at = len(MAGIC)
    while at < len(data_of):
        end = at + HEADER.size + HEADER.unpack_from(data_of, at)[0]
        found.append(data_of[at:end])
        at = end
    offset = sum(map(len, found[: place + 1]))
    path.write_bytes(b"".join(found[: place + 1] + found[place + 2 :]))
    said = found_in(logs)
    assert f"problem: {path.name}: at byte {offset}: the checksum of a record is wrong, or one before" in said
    # And with the checksums of what is left set right:
    write_bodies(path, [body[HEADER.size :] for body in found[1 : place + 1] + found[place + 2 :]])
    said = found_in(logs)
    assert f"problem: pass 0, batch {place}: two ranks disagree on it" in said
    assert "never delivered" in said


def test_a_bit_that_flips_anywhere(data: Path, logs: Path) -> None:
    Ranks(data, logs, 2, 100).finish()
    path = log_of(logs, 0)
    whole = path.read_bytes()
    chance = random.Random(3)
    places = {*range(len(MAGIC) + 9), *range(len(whole) - 50, len(whole))}
    places.update(chance.sample(range(len(whole)), 60))
    for place in sorted(places):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        report = audit(logs)
        assert report.problems > 0, place
        assert report.lines[0].startswith(f"  problem: {path.name}: ")


def test_an_end_that_is_torn_is_no_damage_and_no_delivery(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs, tail="short")
    ranks.steps(60)
    sizes = [log_of(logs, 1).stat().st_size]
    ranks.finish()
    path = log_of(logs, 1)
    whole = path.read_bytes()
    assert_proven(logs, 1)
    for end in range(sizes[0], len(whole)):
        path.write_bytes(whole[:end])
        assert "unfinished" in assert_proven(logs, 0)
        zeros = whole[:end] + bytes(len(whole) - end)  # a machine died
        path.write_bytes(zeros)
        report = audit(logs)
        assert report.finished == [int(zeros == whole)]
        assert report.problems <= 1
    for end in range(len(MAGIC) + 1):
        path.write_bytes(whole[:end])
        assert "pass 0, batch 0: rank 1 of 2 never delivered it" in found_in(logs)


def test_a_start_from_a_batch_that_another_rank_never_delivered(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs)
    ranks.steps(5)
    ranks.step(0)
    state = ranks.loaders[0].state_dict()
    assert_proven(logs, 0)
    Ranks(data, logs, 1, 20, state=state).finish()
    said = found_in(logs)
    assert "problem: pass 0, batch 5: rank 1 of 2 never delivered it" in said
    assert "part-001.parquet: row group 0: rows 50-59 never delivered" in said


@ORDERS
def test_a_start_from_nowhere_unless_it_is_declared(data: Path, logs: Path, shuffle: Shuffle | None) -> None:
    state = Ranks(data, logs / "elsewhere", shuffle=shuffle).steps(7)
    ranks = Ranks(data, logs, 3, shuffle=shuffle, state=state)
    ranks.finish()
    ranks.finish()
    assert "starts from a state that no log leads to" in found_in(logs)
    said = assert_proven(logs, 2, state)
    assert "140 more on trust" in said
    other = Ranks(data, logs / "elsewhere", shuffle=shuffle).steps(8)
    assert "starts from a state that no log leads to" in found_in(logs, other)


def test_a_state_from_the_future(data: Path, logs: Path) -> None:
    state = Ranks(data, logs).steps(7)
    fields = json.loads(state["fastresume"])
    fields["cuts"][-1][-1] += 1
    del fields["check"]
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    fields["check"] = f"{zlib.crc32(text.encode()):08x}"
    Ranks(data, logs, state={"fastresume": json.dumps(fields)}).finish()
    assert "starts from a state that no log leads to" in found_in(logs)


def skip_rows(batch: SimpleNamespace) -> None:
    if batch.step == 7:
        batch.positions[-1, 1] -= 2
        batch.runs, batch.valid_rows = batch.runs[:-1], batch.valid_rows - 2


def repeat_batch(batch: SimpleNamespace) -> None:
    if batch.step == 7:
        batch.positions -= 10


def give_other_rows(batch: SimpleNamespace) -> None:
    if batch.step == 7:
        batch.runs[0] = (batch.runs[0] + 1) % ROWS


def go_beyond(batch: SimpleNamespace) -> None:
    if batch.step == 7:
        batch.positions += ROWS


def drop_more(batch: SimpleNamespace) -> None:
    if batch.ends_pass:
        batch.dropped = np.concatenate([batch.positions, batch.dropped])
        batch.positions = batch.positions[:0]


@ORDERS
@pytest.mark.parametrize(
    ("change", "what"),
    [
        (skip_rows, ["not every row was delivered exactly once", "never delivered"]),
        (repeat_batch, ["not every row was delivered exactly once", "never delivered", "more than once"]),
        (give_other_rows, ["the rows handed over are not those of their places", "batch 7, rank 1 of 2"]),
        (go_beyond, ["positions from 0 to 1882, where there are 1203 rows"]),
    ],
)
def test_a_loader_that_lies(
    data: Path,
    logs: Path,
    shuffle: Shuffle | None,
    change: Callable[[SimpleNamespace], None],
    what: Sequence[str],
) -> None:
    ranks = Ranks(data, logs, shuffle=shuffle)
    forge(ranks.loaders[1], change)
    ranks.finish()
    said = found_in(logs)
    assert all(part in said for part in what), said
    assert audit(logs).finished == [0]


@ORDERS
def test_a_loader_that_lies_in_a_pass_that_is_not_finished(
    data: Path, logs: Path, shuffle: Shuffle | None
) -> None:
    lies = ((repeat_batch, "more than once"), (give_other_rows, "are not those of their places"))
    for change, what in lies:
        ranks = Ranks(data, logs / what, shuffle=shuffle)
        forge(ranks.loaders[1], change)
        ranks.steps(20)
        assert what in found_in(logs / what)


def test_rows_that_no_rank_gets_are_fewer_than_a_global_batch(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs)
    for loader in ranks.loaders:
        forge(loader, drop_more)
    ranks.finish()
    assert "two ranks disagree" in found_in(logs)
    ranks = Ranks(data, logs / "one", 1)
    forge(ranks.loaders[0], drop_more)
    ranks.finish()
    assert "13 rows were dropped, which tail='drop' does not do" in found_in(logs / "one")
    for tail in ("short", "pad"):
        ranks = Ranks(data, logs / tail, 1, tail=tail)
        forge(ranks.loaders[0], drop_more)
        ranks.finish()
        assert f"3 rows were dropped, which tail='{tail}' does not do" in found_in(logs / tail)


def test_ranks_that_cut_in_another_way(data: Path, logs: Path) -> None:
    """Lanes of another size: each rank for itself looks well."""
    ranks = Ranks(data, logs)
    forge(ranks.loaders[1], lambda batch: setattr(batch, "step", batch.step + 1))
    ranks.steps(4)
    assert "problem: pass 0, batch 1: two ranks disagree on it" in found_in(logs)


def test_two_runs_from_one_state_that_differ(data: Path, logs: Path) -> None:
    Ranks(data, logs).steps(10)
    ranks = Ranks(data, logs)
    forge(ranks.loaders[0], repeat_batch)
    ranks.finish()
    assert "problem: pass 0, batch 7: two runs from one state differ" in found_in(logs)


def test_a_run_that_came_to_another_state(data: Path, logs: Path) -> None:
    Ranks(data, logs).steps(10)
    Ranks(data, logs).finish()
    path = log_of(logs, 0, 1)
    forged = bodies(path)
    forged[8] = forged[8][:1] + bytes(8) + forged[8][9:]
    write_bodies(path, forged)
    said = found_in(logs)
    assert "problem: pass 0, batch 7: two runs from one state differ" in said


def test_batches_that_are_numbered_in_another_way(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs, 1)
    forge(ranks.loaders[0], lambda batch: setattr(batch, "step", batch.step + (batch.step > 7)))
    ranks.steps(20)
    assert "problem: pass 0: its batches are not numbered one after another" in found_in(logs)


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_rank_that_ended_the_pass_while_another_one_is_more_than_a_batch_behind(
    data: Path, logs: Path, cut: int
) -> None:
    Ranks(data, logs).finish()
    path = log_of(logs, 1)
    write_bodies(path, bodies(path)[:-cut])
    if cut == 1:  # as a kill leaves it
        assert "pass 0: unfinished (98%)" in assert_proven(logs, 0)
    else:
        assert f"problem: pass 0, batch {60 - cut}: rank 1 of 2 never delivered it" in found_in(logs)


def test_a_start_from_the_end_of_a_pass_of_another_job(data: Path, logs: Path) -> None:
    state = Ranks(data, logs / "elsewhere").finish()
    Ranks(data, logs, state=state).finish()
    assert "starts from a state that no log leads to (pass 1)" in found_in(logs)
    assert_proven(logs, 1, state)


def test_a_start_from_nowhere_by_one_rank_alone(data: Path, logs: Path) -> None:
    state = Ranks(data, logs / "elsewhere").steps(7)
    Ranks(data, logs).steps(2)
    ranks = Ranks(data, logs, 2, 7, state=state)
    ranks.step(1)
    assert "starts from a state that no log leads to (pass 0)" in found_in(logs)
    assert_proven(logs, 0, state)


def test_a_process_that_only_claims_to_go_on(data: Path, logs: Path) -> None:
    ranks = Ranks(data, logs)
    ranks.steps(5)
    for _ in range(2):
        ranks.step(0)
    state = ranks.loaders[0].state_dict()
    ranks.loaders[1].load_state_dict(state)
    ranks.loaders[1].close()
    ranks.begin()
    ranks.steps(1)
    assert "problem: pass 0, batch 5: rank 1 of 2 never delivered it" in found_in(logs)
    path = log_of(logs, 1, 1)
    start, *others = bodies(path)
    fields = json.loads(start[1:])
    fields["continues"] = log_of(logs, 0).name
    write_bodies(path, [start[:1] + json.dumps(fields).encode(), *others])
    assert "problem: pass 0, batch 5: rank 1 of 2 never delivered it" in found_in(logs)


def test_the_audit_of_anything_ends_with_a_report(data: Path, logs: Path) -> None:
    state = Ranks(data, logs, shuffle=SHUFFLE).steps(5)
    Ranks(data, logs, 2, 50, shuffle=SHUFFLE, state=state).finish()
    paths = sorted(logs.glob("*.log"))
    whole = {path: path.read_bytes() for path in paths}
    chance = random.Random(1)
    for turn in range(150 // one_in(3)):
        path = chance.choice(paths)
        forged = bodies(path)
        place = chance.randrange(len(forged))
        body = bytearray(forged[place])
        if turn % 3 == 0:
            del body[chance.randrange(len(body)) :]
        else:
            body[chance.randrange(len(body))] = chance.choice((0, 1, 127, 255, chance.randrange(256)))
        forged[place] = bytes(body)
        write_bodies(path, forged)
        text_of(audit(logs))
        path.write_bytes(whole[path])
    assert_proven(logs, 1)

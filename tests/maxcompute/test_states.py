"""States name the session whose order of rows they count in, and bring it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from maxcompute.conftest import Open
from support.arrow_rows import assert_same_rows, numbers_in
from support.audits import assert_proven
from support.ipc_writer import write_ipc
from support.maxcompute_server import MaxCompute

GIVEN: dict[str, Any] = {"batch_size": 7, "tail": "short", "world": (0, 1)}


def numbered(rows: int, start: int = 0) -> pa.Table:
    lists = pa.array([[row] * (row % 4 + 1) for row in range(start, start + rows)], pa.list_(pa.int64()))
    return pa.table({"x": range(start, start + rows), "tokens": lists})


def copied(state: Any) -> Any:
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("unit", [None, fr.Packed("tokens", length=8)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_state_of_any_batch_goes_on_in_its_session(
    service: MaxCompute, opens: Open, unit: Any, shuffle: bool
) -> None:
    address = service.put("clicks", numbered(50))
    given = {**GIVEN, "unit": unit, "shuffle": shuffle, "columns": ["tokens"] if unit else None}

    def dataset() -> fr.ArrowDataset:
        return fr.ArrowDataset(opens(address), **given)

    first = dataset()
    batches = [*first, *first]  # two passes
    for place in (0, 3, len(batches) // 2 - 1, len(batches) - 2):
        other = dataset()
        assert other.fingerprint != first.fingerprint
        with fr.Loader(other, threads=1) as loader:
            loader.load_state_dict(copied(batches[place].state_dict()))
            assert other.fingerprint == first.fingerprint
            later = iter(loader)
            for expected in batches[place + 1 :]:
                batch = next(later, None)
                if batch is None:
                    later = iter(loader)
                    batch = next(later)
                if unit is None:
                    assert_same_rows(batch, expected)
                else:
                    assert batch["tokens"].tolist() == expected["tokens"].tolist()
                assert batch.state_dict() == expected.state_dict()


def test_a_mixture_of_files_and_tables_goes_on_at_every_step(
    service: MaxCompute, opens: Open, tmp_path: Any
) -> None:
    pq.write_table(numbered(30, 1000).select(["x"]), tmp_path / "a.parquet")
    addresses = [service.put("clicks", numbered(40)), service.put("views", numbered(25, 500))]

    def mixture() -> fr.Mixture:
        sources: dict[str, Any] = {"files": (fr.ParquetDataset(tmp_path / "a.parquet", columns=["x"]), 1)}
        for name, address in zip(("clicks", "page views"), addresses, strict=True):
            sources[name] = (fr.ArrowDataset(opens(address), columns=["x"], shuffle=True), 2)
        return fr.Mixture(sources, batch_size=5, world=(0, 1))

    first = mixture()
    batches = [*first, *first, *first]
    assert len({batch.epoch for batch in batches}) == 3
    ends = [place for place, batch in enumerate(batches) if batch.cursor.epoch > batch.epoch]
    for place in (0, 5, *ends[:2], ends[1] + 2):
        other = mixture()
        other.load_state_dict(copied(batches[place].state_dict()))
        batch = next(iter(other))
        assert_same_rows(batch, batches[place + 1])
        assert batch.state_dict() == batches[place + 1].state_dict()


def test_a_mixture_of_all_kinds_takes_in_what_is_appended_and_goes_on_from_there(
    service: MaxCompute, opens: Open, tmp_path: Path
) -> None:
    pq.write_table(numbered(30, 1000), tmp_path / "a.parquet", row_group_size=8)
    service.put("clicks", {"ds=0": numbered(30, 3000), "ds=1": numbered(12, 3030)})
    for day, (rows, start) in enumerate(((30, 2000), (12, 2030))):
        write_ipc(numbered(rows, start), tmp_path / f"{day}.arrow", "lz4", 8)
    read: dict[str, Any] = {"columns": ["x"], "on_change": "append", "shuffle": True, "world": (0, 1)}

    def mixture(days: int) -> fr.Mixture:
        files = [[tmp_path / f"{day}.arrow"] for day in range(days)]
        clicks = opens([f"odps://shop/tables/clicks/ds={day}" for day in range(days)])
        sources: dict[str, Any] = {
            "parquet": (fr.ParquetDataset(tmp_path / "a.parquet", **read), 1),
            "ipc": (fr.ArrowDataset(files, **read), 2),
            "clicks": (fr.ArrowDataset(clicks, **read), 2),
        }
        return fr.Mixture(sources, batch_size=5, stop="all", tail="short", world=(0, 1))

    first = mixture(1)
    delivered = [batch for _, batch in zip(range(7), first, strict=False)]
    grown = mixture(2)
    grown.load_state_dict(copied(delivered[-1].state_dict()))
    later = list(grown)
    found: list[list[int]] = [[], [], []]
    for batch in (*delivered, *later):
        for source, row in zip(batch.source.tolist(), batch["x"].tolist(), strict=True):
            found[source].append(row)
    for rows, (count, start) in zip(found, ((30, 1000), (42, 2000), (42, 3000)), strict=True):
        assert sorted(rows[:count]) == list(range(start, start + count))
    for place in range(0, len(later) - 1, 4):
        other = mixture(2)
        other.load_state_dict(copied(later[place].state_dict()))
        for batch, expected in zip(other, later[place + 1 :], strict=True):
            assert_same_rows(batch, expected)
            assert batch.state_dict() == expected.state_dict()


def test_a_state_may_be_given_when_the_source_is_opened_and_no_session_begins(
    service: MaxCompute, opens: Open
) -> None:
    address = service.put("clicks", numbered(20))
    dataset = fr.ArrowDataset(opens(address), **GIVEN)
    state = next(iter(dataset)).state_dict()
    again = fr.ArrowDataset(opens(address, state=state), **GIVEN)
    again.load_state_dict(state)
    assert numbers_in(again) == numbers_in(dataset)
    assert len(service.kinds("open")) == 1


@pytest.mark.parametrize("is_mixed", [False, True])
def test_lives_of_a_job_are_proven_by_the_audit_and_kept_by_checkpoints(
    service: MaxCompute, opens: Open, tmp_path: Path, is_mixed: bool
) -> None:
    address, step = service.put("clicks", numbered(300)), 0
    for steps in (5, 7, 1000):
        dataset: Any = fr.ArrowDataset(opens(address), columns=["x"], shuffle=True, **GIVEN)
        if is_mixed:
            dataset = fr.Mixture({"clicks": (dataset, 1)}, batch_size=7, tail="short", world=(0, 1))
        with fr.Loader(dataset, audit=tmp_path / "logs") as loader, Checkpointer(tmp_path / "saved") as saved:
            saved.restore(loader=loader)
            for _, batch in zip(range(steps), loader, strict=False):
                step += 1
                saved.save(step, loader=batch)
    assert_proven(tmp_path / "logs", passes=1)


def test_ranks_out_of_step_are_merged_in_their_session(service: MaxCompute, opens: Open) -> None:
    source = opens(service.put("clicks", numbered(60)))
    states, seen = {}, []
    for rank, steps in ((0, 1), (1, 3)):
        dataset = fr.ArrowDataset(source, batch_size=5, world=(rank, 2))
        for _, batch in zip(range(steps), dataset, strict=False):
            states[rank] = batch.state_dict()
            seen += batch["x"].tolist()
    again = fr.ArrowDataset(opens("odps://shop/tables/clicks"), batch_size=1, world=(0, 1))
    again.load_state_dict(fr.Cursor.merge(states).to_state())
    assert sorted(seen + numbers_in(again)) == list(range(60))


def test_an_ended_session_is_an_error_that_says_what_can_be_done(service: MaxCompute, opens: Open) -> None:
    address = service.put("clicks", numbered(20))
    dataset = fr.ArrowDataset(opens(address), **GIVEN)
    batches = iter(dataset)
    state = next(batches).state_dict()
    service.expire()
    with pytest.raises(fr.SourceError, match=r"session 202601010000session of odps.* has ended.*same_order"):
        fr.ArrowDataset(opens(address), **GIVEN).load_state_dict(state)
    with pytest.raises(fr.SourceError, match="same_order"):
        opens(address, state=state)


def test_same_order_takes_a_new_session_of_an_unchanged_table_for_the_old_one(
    service: MaxCompute, opens: Open
) -> None:
    service.keeps_order = True
    address = service.put("clicks", {"ds=1": numbered(20), "ds=2": numbered(10, 20)})
    dataset = fr.ArrowDataset(opens(address), **GIVEN)
    batches = [*dataset]
    state, second = batches[0].state_dict(), batches[1].state_dict()
    rest = numbers_in(batches[1:])
    for _ in range(2):  # the session is named as before, and ends once more
        service.expire()
        again = fr.ArrowDataset(opens(address, same_order=True), **GIVEN)
        again.load_state_dict(state)
        first = next(iter(again))
        assert first["x"].tolist() + numbers_in(again) == rest
        assert first.state_dict() == second


@pytest.mark.parametrize("what", ["rows", "time", "version"])
def test_same_order_does_not_hold_for_a_table_that_has_changed(
    service: MaxCompute, opens: Open, what: str
) -> None:
    address = service.put("clicks", numbered(20))
    stored = service.stored("clicks")
    stored.version = 3
    dataset = fr.ArrowDataset(opens(address), **GIVEN)
    state = next(iter(dataset)).state_dict()
    service.expire()
    if what == "rows":
        stored.partitions[""] = numbered(21)
    elif what == "time":
        stored.changed[""] += 60
    else:
        stored.version += 1
    with pytest.raises(fr.SourceError, match="rows have changed since"):
        fr.ArrowDataset(opens(address, same_order=True), **GIVEN).load_state_dict(state)


def test_partitions_that_are_added_are_read_in_the_pass(service: MaxCompute, opens: Open) -> None:
    days = {f"ds={day}": numbered(10, 10 * day) for day in range(3)}
    service.put("clicks", days)
    names = [f"odps://shop/tables/clicks/{day}" for day in days]
    given = {**GIVEN, "on_change": "append", "batch_size": 4}
    first = fr.ArrowDataset(opens(names[:2]), **given)
    batches = iter(first)
    seen = numbers_in([next(batches), next(batches)])
    grown = fr.ArrowDataset(opens(names), **given)
    grown.load_state_dict(copied(first.state_dict()))
    assert sorted(seen + numbers_in(grown)) == list(range(30))


@pytest.mark.parametrize("by_partition", [False, True])
def test_offsets_of_torcheasyrec_go_on_in_their_sessions(
    service: MaxCompute, opens: Open, by_partition: bool
) -> None:
    address = service.put("clicks", {f"ds={day}": numbered(10, 10 * day) for day in range(2)})
    opens(address, by_partition=by_partition)  # another reader's sessions
    sessions = {name: session.rows["x"].to_pylist() for name, session in service.sessions.items()}
    ended, *later = sessions
    offsets = {f"{address}#{ended}:0": 3, f"{address}#{ended}:6": 7, "__epochs_completed__": 2}
    source = opens(address, by_partition=by_partition, state=offsets)
    dataset = fr.ArrowDataset(source, **GIVEN)
    dataset.load_state_dict(fr.Cursor.from_offsets(offsets, dataset, paths=source.paths))
    assert dataset.epoch == 2
    rest = sessions[ended][4:6] + sessions[ended][8:]
    found = numbers_in(dataset)
    assert found[: len(rest)] == rest
    assert sorted(found[len(rest) :]) == (list(range(10, 20)) if by_partition else [])
    state = dataset.state_dict()
    again = fr.ArrowDataset(opens(address, by_partition=by_partition), **GIVEN)
    again.load_state_dict(state)
    assert next(iter(again)).state_dict() == next(iter(dataset)).state_dict()
    assert len(later) == by_partition


def test_offsets_of_other_tables_or_of_too_many_sessions_are_refused(
    service: MaxCompute, opens: Open
) -> None:
    address = service.put("clicks", numbered(20))
    with pytest.raises(fr.StateError, match="none of the addresses"):
        opens(address, state={"odps://shop/tables/views#a:0": 3})
    with pytest.raises(fr.StateError, match="by_partition=True"):
        opens(address, state={f"{address}#a:0": 3, f"{address}#b:0": 3})

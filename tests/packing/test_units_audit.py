"""The audit proves jobs of units: each sequence or bin once, and each token or row in them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
import fastresume._core as _core
from fastresume.audit.verify import audit
from fastresume.packing import content
from fastresume.packing.spec import UnitsSpec
from support.audits import Ranks, assert_proven, found_in, log_of
from support.documents import Oracle, documents, write
from support.jobs import FEW
from support.topologies import Shuffle

FILES = [documents(2, 200, 40), documents(3, 90, 40)]
PACKED = fr.Packed("tokens", length=16)
BINS = fr.Bins("tokens", cost=30)
SHUFFLE = Shuffle(3, 8, 24)


def ranks(directory: Path, world_size: int, unit: Any, **how: Any) -> Ranks:
    data = directory / "data"
    if not data.exists():
        write(data, FILES, row_group_size=64)
    return Ranks(data, directory / "logs", world_size, 3, unit=unit, nulls="mask", **how)


@pytest.mark.law(1)
@FEW
@given(data=st.data())
def test_a_killed_elastic_packed_job_is_proven(data: st.DataObject) -> None:
    separator, rest = data.draw(st.sampled_from((None, 7))), data.draw(st.sampled_from(("drop", "pad")))
    unit: Any = data.draw(
        st.sampled_from((fr.Packed("tokens", length=16, separator=separator, rest=rest), BINS))
    )
    tail = data.draw(st.sampled_from(("drop", "short", "pad")))
    shuffle = data.draw(st.sampled_from((None, SHUFFLE)))
    state = None
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for _ in range(data.draw(st.integers(0, 3))):
            job = ranks(
                directory, data.draw(st.integers(1, 3)), unit, tail=tail, shuffle=shuffle, state=state
            )
            state = job.steps(data.draw(st.integers(1, 6)))
            job.steps(data.draw(st.integers(0, 2)))  # lost with the kill
        ranks(directory, 2, unit, tail=tail, shuffle=shuffle, state=state).finish()
        said = assert_proven(directory / "logs", 1, or_more=True)
    if isinstance(unit, fr.Packed):
        dropped = Oracle(FILES, 16, separator, rest).dropped
        but = f" but {dropped} after the last sequences" if dropped else ""
        assert f"every token of every document{but} exactly once; batches" in said
    else:
        assert "every selected row exactly once; batches" in said


@pytest.mark.parametrize("unit", [PACKED, BINS], ids=repr)
@pytest.mark.parametrize("how", [{"threads": 2}, {"num_workers": 2}], ids=str)
def test_threads_workers_and_transforms_are_audited(tmp_path: Path, unit: Any, how: dict[str, Any]) -> None:
    write(tmp_path / "data", FILES)
    dataset = fr.ParquetDataset(
        tmp_path / "data", batch_size=4, lanes=2, unit=unit, nulls="mask", world=(0, 1)
    )
    with fr.Loader(dataset.map(_without_tokens), audit=tmp_path / "logs", **how) as loader:
        assert all(batch["label"].shape == () for batch in loader)
    assert "exactly once; batches" in assert_proven(tmp_path / "logs", 1)


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["in order", "shuffled"])
@pytest.mark.parametrize("unit", [PACKED, BINS], ids=repr)
@pytest.mark.parametrize("how", [{"threads": 0}, {"threads": 2}, {"num_workers": 2}], ids=str)
def test_transforms_that_write_to_tensors_change_no_proof(
    tmp_path: Path, unit: Any, shuffle: Shuffle | None, how: dict[str, Any]
) -> None:
    write(tmp_path / "data", FILES, row_group_size=64)
    order = {} if shuffle is None else shuffle.arguments
    made = {"unit": unit, "nulls": "mask", "rank": 0, "world_size": 1, "lanes": 2, "tail": "pad"}
    dataset = fr.ParquetDataset(tmp_path / "data", batch_size=4, **made, **order)
    with fr.Loader(dataset.map(_overwritten), audit=tmp_path / "logs", **how) as loader:
        assert sum(1 for _ in loader) == len(dataset)
    assert "exactly once; batches" in assert_proven(tmp_path / "logs", 1)


def _overwritten(batch: fr.Batch) -> fr.Batch:
    for value in batch.values():
        (value.values if isinstance(value, fr.Jagged) else value).zero_()
    return batch


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["in order", "shuffled"])
def test_audited_units_are_decoded_by_the_cores_threads(tmp_path: Path, shuffle: Shuffle | None) -> None:
    for unit in (PACKED, BINS):
        job = ranks(tmp_path, 1, unit, shuffle=shuffle)
        spec: Any = job.loaders[0]._spec
        assert spec.is_audited
        planned = spec.pass_from(spec.start(), 1)
        reader = spec.reader(spec.start(), planned, (0, 1, 0, 1), 2, 1 << 20)
        assert isinstance(reader, _core.Reader)
        reader.front()
        assert len(reader.activity.threads()) == 3
        reader.close()


def _without_tokens(batch: fr.Batch) -> dict[str, Any]:
    return {"label": batch.valid.sum()}


def test_an_unfinished_pass_and_one_on_trust_are_proven_by_their_sequences(tmp_path: Path) -> None:
    state = ranks(tmp_path, 2, PACKED).steps(4)
    said = assert_proven(tmp_path / "logs", 0)
    assert "pass 0: unfinished" in said
    assert "24 sequences, each exactly once; batches 0-3 on 2 ranks" in said
    (tmp_path / "logs").rename(tmp_path / "earlier")
    ranks(tmp_path, 1, PACKED, state=state).finish()
    said = assert_proven(tmp_path / "logs", 1, state)
    assert "whether every token of every document" in said
    assert "can't be told" in said


def test_a_missing_rank_is_named_by_its_sequences(tmp_path: Path) -> None:
    state = ranks(tmp_path, 2, PACKED).steps(4)
    ranks(tmp_path, 3, PACKED, state=state).finish()
    log_of(tmp_path / "logs", 1).unlink()
    said = found_in(tmp_path / "logs")
    assert "rank 1 of 2 never delivered it" in said
    assert "    0.parquet: sequences 84-95 never delivered" in said


@pytest.mark.parametrize("unit", [PACKED, BINS], ids=repr)
def test_other_units_than_those_of_the_order_are_seen(
    tmp_path: Path, unit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = UnitsSpec.digests

    def other(self: UnitsSpec, batch: Any, origin: Any) -> Any:
        units, held = honest(self, batch, origin)
        return (units + 1, held) if batch.step == 2 else (units, held)

    monkeypatch.setattr(UnitsSpec, "digests", other)
    ranks(tmp_path, 1, unit, shuffle=SHUFFLE).finish()
    report = audit(tmp_path / "logs")
    counted = "sequences" if unit is PACKED else "bins"
    assert report.problems == 1
    assert f"the {counted} handed over are not those of their places" in "\n".join(report.lines)
    assert any(line.strip().startswith("batch 2, rank 0") for line in report.lines)


def test_units_that_this_version_does_not_know_are_not_proven(tmp_path: Path) -> None:
    ranks(tmp_path, 1, BINS).finish()
    (described,) = (tmp_path / "logs").glob("units-*.json")
    described.write_text(described.read_text().replace('"counted": "bins"', '"counted": "sessions"'))
    assert "is missing or damaged" in found_in(tmp_path / "logs")


def test_a_token_that_stands_twice_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest, calls = content.of_sequences, []

    def once_wrong(document: Any, position: Any, rows: Any, offsets: Any) -> int:
        calls.append(1)
        if len(calls) == 3:
            position = position.clone()
            position[0, -1] -= 1
        return honest(document, position, rows, offsets)

    monkeypatch.setattr(content, "of_sequences", once_wrong)
    ranks(tmp_path, 1, PACKED).finish()
    said = found_in(tmp_path / "logs")
    assert "what the sequences held is not what those of their places hold" in said


def test_what_is_dropped_at_the_end_is_in_the_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = UnitsSpec.dropped_content
    ranks(tmp_path, 5, PACKED).finish()
    said = assert_proven(tmp_path / "logs", 1)
    assert "3 dropped by tail='drop'; with these every token" in said
    monkeypatch.setattr(UnitsSpec, "dropped_content", lambda *given: (honest(*given) or 0) + 1)
    again = tmp_path / "again"
    again.mkdir()
    ranks(again, 5, PACKED).finish()
    assert "held is not what those of their places hold" in found_in(again / "logs")

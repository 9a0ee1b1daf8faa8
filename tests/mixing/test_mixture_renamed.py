"""A source under a new name goes on where the renaming is said, and is refused else: none begins anew."""

from __future__ import annotations

import multiprocessing
import pickle
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.integrations.resume_state import ResumeState
from support.mixtures import places, source


def mixture(root: Path, names: dict[str, str], **how: Any) -> fr.Mixture:
    """A mixture of the sources that have these names: name of now to that of its files."""
    sources = {name: (source(root, of, **how.pop(name, {})), 1) for name, of in names.items()}
    return fr.Mixture(sources, **{"batch_size": 6, "rank": 0, "world_size": 1, **how})


def some_batches(made: fr.Mixture, count: int) -> list[fr.Batch]:
    batches = iter(made)
    return [next(batches) for _ in range(count)]


def delivered(batches: list[fr.Batch], made: fr.Mixture, names: dict[str, str]) -> Counter[tuple[str, int]]:
    """How often each row was delivered, by the files that it is of."""
    return Counter((names[name], row) for batch in batches for name, row in places(batch, made))


BEFORE = {"web": "web", "code": "code"}
NOW = {"web": "web", "git": "code"}
RENAMED = {"code": "git"}


@pytest.fixture
def state(root: Path) -> dict[str, str]:
    """After ten batches of two sources."""
    return some_batches(mixture(root, BEFORE), 10)[-1].state_dict()


def test_a_source_under_a_new_name_is_refused_with_the_line_to_write(
    root: Path, state: dict[str, str]
) -> None:
    two = mixture(root, NOW)
    with pytest.raises(fr.StateError) as caught:
        two.load_state_dict(state)
    assert 'source "git" is not in the state' in str(caught.value)
    assert 'write Mixture(..., renamed={"code": "git"})' in str(caught.value)
    assert two.state_dict() == mixture(root, NOW).state_dict(), "it stays as it was"


def test_a_source_that_was_renamed_goes_on_with_every_row_once(root: Path) -> None:
    one = mixture(root, BEFORE)
    first = some_batches(one, 10)
    two = mixture(root, NOW, renamed=RENAMED)
    two.load_state_dict(first[-1].state_dict())
    rest = list(two)
    unbroken = list(mixture(root, BEFORE))
    assert [batch.rows().tolist() for batch in (*first, *rest)] == [b.rows().tolist() for b in unbroken]
    counts = delivered(first, one, BEFORE) + delivered(rest, two, NOW)
    assert set(counts.values()) == {1}
    # The next start of the same script, whose states have the new name.
    again = mixture(root, NOW, renamed=RENAMED)
    again.load_state_dict(rest[3].state_dict())
    assert next(iter(again)).rows().tolist() == rest[4].rows().tolist()
    assert again.plan().rows.keys() == {"web", "git"}


@pytest.mark.parametrize("names", [{"A": "web", "B": "code"}, {"A": "web"}])
def test_a_state_all_of_whose_sources_have_other_names_is_refused(
    root: Path, state: dict[str, str], names: dict[str, str]
) -> None:
    with pytest.raises(fr.StateError, match=r"renamed=\{.*\"web\": \"A\""):
        mixture(root, names).load_state_dict(state)


def test_a_state_of_other_sources_is_refused_and_one_more_source_is_not(
    root: Path, state: dict[str, str]
) -> None:
    with pytest.raises(fr.StateError, match='a mixture of other sources: "web", "code"; this one has "x"'):
        mixture(root, {"x": "books"}).load_state_dict(state)
    more = mixture(root, {"web": "web", "code": "code", "books": "books"})
    more.load_state_dict(state)
    assert "books" in {name for name, _ in places(next(iter(more)), more)}


def test_names_that_change_places_are_told_apart_by_their_files(root: Path, state: dict[str, str]) -> None:
    swapped = {"web": "code", "code": "web"}
    with pytest.raises(fr.StateError, match=r'renamed=\{"code": "web", "web": "code"\}'):
        mixture(root, swapped).load_state_dict(state)
    renamed = {"web": "code", "code": "web"}
    two = mixture(root, swapped, renamed=renamed)
    two.load_state_dict(state)
    batch = next(iter(two))
    expected = some_batches(mixture(root, BEFORE), 11)[-1]
    assert batch.rows().tolist() == expected.rows().tolist()
    again = mixture(root, swapped, renamed=renamed)
    again.load_state_dict(batch.state_dict())
    assert next(iter(again)).step == 11


def test_a_renamed_source_that_grew_goes_on_with_what_came(root: Path, tmp_path: Path) -> None:
    for name in ("web", "code"):
        shutil.copytree(root / name, tmp_path / name)
    how: dict[str, Any] = {"code": {"on_change": "append"}, "git": {"on_change": "append"}}
    one = mixture(tmp_path, BEFORE, code=how["code"])
    first = some_batches(one, 10)
    shutil.copy(tmp_path / "code" / "a.parquet", tmp_path / "code" / "b.parquet")
    with pytest.raises(fr.StateError, match=r'renamed=\{"code": "git"\}'):
        mixture(tmp_path, NOW).load_state_dict(first[-1].state_dict())
    two = mixture(tmp_path, NOW, renamed=RENAMED, git=how["git"])
    two.load_state_dict(first[-1].state_dict())
    counts = delivered(first, one, BEFORE) + delivered(list(two), two, NOW)
    assert set(counts.values()) == {1}
    assert max(row for name, row in counts if name == "code") >= 260


def test_a_source_is_renamed_in_stages_that_do_not_read_it(root: Path) -> None:
    one = mixture(root, BEFORE, stages=[(24, {"code": 1}), (24, {"web": 1})])
    for _ in range(2):
        state = list(one)[-1].state_dict()
    untold = mixture(root, NOW, stages=[(24, {"git": 1}), (24, {"web": 1})])
    with pytest.raises(fr.StateError, match=r'renamed=\{"code": "git"\}'):
        untold.load_state_dict(state)
    two = mixture(root, NOW, renamed=RENAMED, stages=[(24, {"git": 1}), (24, {"web": 1})])
    two.load_state_dict(state)
    batch = next(iter(two))
    assert (batch.epoch, min(row for name, row in places(batch, two) if name == "git")) == (2, 24)


def test_workers_and_copies_know_of_the_renaming(root: Path, state: dict[str, str]) -> None:
    two = pickle.loads(pickle.dumps(mixture(root, NOW, renamed=RENAMED)))
    two.load_state_dict(state)
    expected = some_batches(mixture(root, BEFORE), 14)[10:]
    context = multiprocessing.get_context("forkserver")
    with fr.Loader(two, num_workers=1, multiprocessing_context=context) as loader:
        found = [batch.rows().tolist() for batch, _ in zip(loader, range(4), strict=False)]
    assert found == [batch.rows().tolist() for batch in expected]


def test_a_source_that_is_let_go_is_read_anew(root: Path, state: dict[str, str]) -> None:
    two = mixture(root, NOW, renamed={"code": None})
    two.load_state_dict(state)
    assert 0 in {row for name, row in places(next(iter(two)), two) if name == "git"}


CHANGES: dict[str, dict[str, Any]] = {
    "another seed": {"shuffle": True, "seed": 2},
    "in file order": {},
    "other blocks": {"shuffle": True, "seed": 1, "block_rows": 4},
    "fewer rows": {"shuffle": True, "seed": 1, "rows": [[0, 200]]},
    "a filter": {"shuffle": True, "seed": 1, "filter": fr.col("x") < 10_200},
    "other files": {"of": "books"},
}


@pytest.mark.law(9)
@pytest.mark.filterwarnings("ignore:the job resumes from step")
@pytest.mark.parametrize("change", CHANGES)
def test_a_source_that_may_be_one_that_is_gone_is_refused_at_every_door(
    root: Path, tmp_path: Path, change: str
) -> None:
    """Under a new name and in another order, or with other rows, it began at its first row in silence."""
    how = dict(CHANGES[change])
    of = how.pop("of", "code")
    one = mixture(root, BEFORE, code={"shuffle": True, "seed": 1, "block_rows": 8, "window_rows": 64})
    state = some_batches(one, 10)[-1].state_dict()

    def two(**more: Any) -> fr.Mixture:
        return mixture(root, {"web": "web", "git": of}, git=dict(how), **more)

    with Checkpointer(tmp_path / "saved") as checkpointer:
        checkpointer.save(1, loader=one, extra={})
    doors: dict[str, Callable[[], object]] = {
        "a mixture": lambda: two().load_state_dict(state),
        "its passes anew": lambda: two().load_state_dict(state, reset_epochs=True),
        "a Loader": lambda: fr.Loader(two()).load_state_dict(state),
        "workers": lambda: fr.Loader(two(), num_workers=1).load_state_dict(state),
        "a copy": lambda: pickle.loads(pickle.dumps(two())).load_state_dict(state),
        "a mapped one": lambda: two().map(lambda batch: batch).load_state_dict(state),
        "a Cursor": lambda: two().load_state_dict(fr.Cursor.from_state(state)),  # type: ignore[arg-type]
        "what remains": lambda: fr.Cursor.from_state(state).remaining(two()),
        "what remains of it": lambda: two().remaining(state),
        "a batch": lambda: two().batch_at(0, 1, state),
        "a framework": lambda: ResumeState(fr.Loader(two())).load_state_dict(state),
        "a Checkpointer": lambda: Checkpointer(tmp_path / "saved").restore(loader=two()),
    }
    for door, enter in doors.items():
        with pytest.raises(fr.StateError) as caught:
            enter()
        message = str(caught.value)
        assert 'source "git" is not in the state' in message, door
        assert 'renamed={"code": "git"}' in message, door
        assert 'renamed={"code": None} to begin "git" at its first row' in message, door
        assert ("write seed=1" in message) == (change == "another seed"), message
    anew = two(renamed={"code": None})
    anew.load_state_dict(state)
    batch = next(iter(anew))
    first = next(iter(source(root, of, batch_size=3, rank=0, world_size=1, **how)))
    assert batch.step == 10
    assert [row for name, row in places(batch, anew) if name == "git"] == first.rows().tolist()


@pytest.mark.law(9)
def test_a_new_source_beside_all_of_the_state_begins_at_its_first_row(root: Path, state: Any) -> None:
    """Also over the files of another one; and one that is left out alone is no fault."""
    how: dict[str, Any] = {"shuffle": True, "seed": 3}
    more = mixture(root, {"web": "web", "code": "code", "again": "code"}, again=how)
    more.load_state_dict(state)
    assert "again" in {name for name, _ in places(next(iter(more)), more)}
    alone = mixture(root, {"web": "web"})
    alone.load_state_dict(state)
    found = next(iter(alone)).state_dict()
    with pytest.raises(fr.StateError, match='"code" of the state, with 30 rows delivered, is not in'):
        mixture(root, {"web": "web", "books": "books"}).load_state_dict(found)
    mixture(root, BEFORE).load_state_dict(found)


@pytest.mark.parametrize(
    ("renamed", "kind", "words"),
    [
        ("code", TypeError, "renamed must be a mapping"),
        ({"code": 1}, TypeError, "renamed holds names"),
        ({"code": "gti"}, ValueError, "'code' is 'gti' now, which is no source"),
        ({"git": "code"}, ValueError, "write 'code': 'git', the old name first"),
    ],
)
def test_what_is_no_renaming_is_refused(root: Path, renamed: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        mixture(root, NOW, renamed=renamed)


def test_what_a_pass_has_left_of_each_source_is_told_by_row(root: Path) -> None:
    two = mixture(root, BEFORE, web={"shuffle": True, "block_rows": 8, "window_rows": 64})
    given = delivered(some_batches(two, 10), two, BEFORE)
    left = two.remaining()
    rest = delivered(list(two), two, BEFORE)
    for name, rows in left.items():
        told_left = {row for start, end in rows.rows(1000).tolist() for row in range(start, end)}
        assert {row for of, row in rest if of == name} <= told_left
        assert not told_left & {row for of, row in given if of == name}
    cursor = fr.Cursor.from_state(two.state_dict())
    assert {path.split("/")[-2] for path, _, _ in cursor.remaining(two)} == {"web", "code"}


def test_cursors_over_mixtures_say_what_to_write(root: Path) -> None:
    two = mixture(root, BEFORE, world_size=2)
    states = [batch.state_dict() for batch in some_batches(two, 3)]
    with pytest.raises(fr.StateError, match="rank 1, which has done the fewest batches, 2 of"):
        fr.Cursor.merge([states[2], states[1]], world_size=2)
    assert fr.Cursor.merge([states[1], states[1]]).to_state() == states[1]
    for ask in (fr.Cursor.from_offsets, fr.Cursor.rows_after_offsets):
        with pytest.raises(TypeError, match=r"rows=Cursor.rows_after_offsets\(offsets, mixture.datasets"):
            ask({"x:0": 1}, two)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(AttributeError, match=r"write batch_at\(epoch, step\)"):
        two.batch_of_row(0, 1)
    with pytest.raises(AttributeError, match=r"mixture.datasets\[name\].paths"):
        _ = two.paths


def test_resume_is_asserted_over_mixtures_and_units(root: Path, tmp_path: Path) -> None:
    lists = [[row] * (row % 5 + 1) for row in range(60)]
    pq.write_table(pa.table({"tokens": lists}), tmp_path / "a.parquet", row_group_size=20)

    def one(unit: Any) -> fr.ParquetDataset:
        return fr.ParquetDataset(tmp_path, unit=unit, batch_size=3, world=(0, 1))

    makers: list[Callable[[], Any]] = [
        lambda: mixture(root, {"code": "code", "books": "books"}, stop=60),
        lambda: one(fr.Packed("tokens", length=16)),
        lambda: fr.Loader(one(fr.Packed("tokens", length=16))),
        lambda: one(fr.Bins("tokens", cost=16)),
    ]
    assert all(fr.testing.assert_exact_resume(make, every=4) > 0 for make in makers)
    with pytest.raises(fr.StateError, match="the dataset counts units"):
        fr.Cursor.from_offsets({str(tmp_path / "a.parquet:0"): 3}, makers[1]())

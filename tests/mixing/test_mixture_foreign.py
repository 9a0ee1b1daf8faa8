"""A state that fits no source is refused at every door, and nothing starts at row 0 unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr

ROWS = {"a": 120, "b": 60, "c": 120}
SHUFFLED: dict[str, Any] = {"shuffle": True, "seed": 1}
OTHER_SEED: dict[str, Any] = {"shuffle": True, "seed": 2}
FEWER: dict[str, Any] = {"rows": [[0, 60]]}
PACKED: dict[str, Any] = {"unit": fr.Packed("tokens", length=4)}
LONGER: dict[str, Any] = {"unit": fr.Packed("tokens", length=5)}
BINS: dict[str, Any] = {"unit": fr.Bins("tokens", cost=9)}
ONE: dict[str, Any] = {"batch_size": 5, "rank": 0, "world_size": 1}

Source = tuple[str, dict[str, Any]]
A: Source = ("a", {})
B: Source = ("b", {})
C: Source = ("c", {})

DATASETS: dict[str, Source] = {
    "a": A,
    "c": C,
    "a shuffled": ("a", SHUFFLED),
    "a of another seed": ("a", OTHER_SEED),
    "rows of a": ("a", FEWER),
    "a packed": ("a", PACKED),
    "a packed longer": ("a", LONGER),
    "a in bins": ("a", BINS),
}
MIXTURES: dict[str, dict[str, Source]] = {
    "a": {"a": A},
    "b": {"b": B},
    "c": {"c": C},
    "a+b": {"a": A, "b": B},
    "b+a": {"b": B, "a": A},
    "a+c": {"a": A, "c": C},
    "a+c as b": {"a": A, "b": C},
    "b as a+a as b": {"a": B, "b": A},
    "a as x+b as y": {"x": A, "y": B},
    "a as x+b": {"x": A, "b": B},
    "shuffled a+b": {"a": ("a", SHUFFLED), "b": B},
    "a of another seed+b": {"a": ("a", OTHER_SEED), "b": B},
    "rows of a+b": {"a": ("a", FEWER), "b": B},
    "packed a": {"a": ("a", PACKED)},
    "packed longer a": {"a": ("a", LONGER)},
}
LOAD = {  # into which others the state of a mixture is loaded: a source is added, or left out
    "a": {"a+b", "b+a", "a+c", "a+c as b"},
    "b": {"a+b", "b+a", "a as x+b", "shuffled a+b", "a of another seed+b", "rows of a+b"},
    "c": {"a+c"},
    "a+b": {"a", "b", "b+a"},
    "b+a": {"a", "b", "a+b"},
    "a+c": {"a", "c"},
    "a+c as b": {"a"},
    # One that is left out may be a new one, with other rows, or in another order.
    "a as x+b": {"b"},
    "shuffled a+b": {"b"},
    "a of another seed+b": {"b"},
    "rows of a+b": {"b"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sources")
    for name, rows in ROWS.items():
        tokens = [[row] * (row % 5 + 1) for row in range(rows)]
        (found / name).mkdir()
        table = pa.table({"x": [ord(name) + row for row in range(rows)], "tokens": tokens})
        pq.write_table(table, found / name / "f.parquet", row_group_size=20)
    return found


def dataset(root: Path, source: Source, **how: Any) -> fr.ParquetDataset:
    name, own = source
    return fr.ParquetDataset(root / name, columns=["tokens"] if "unit" in own else ["x"], **own, **how)


def mixture(root: Path, sources: dict[str, Source], **how: Any) -> fr.Mixture:
    return fr.Mixture({name: (dataset(root, source), 1) for name, source in sources.items()}, **ONE, **how)


def makers(root: Path) -> dict[str, Callable[[], Any]]:
    """What makes each dataset and each mixture, by names of which no two are the same."""
    found: dict[str, Callable[[], Any]] = {
        f"dataset {name}": lambda source=source: dataset(root, source, **ONE)
        for name, source in DATASETS.items()
    }
    return found | {
        f"mixture {name}": lambda sources=sources: mixture(root, sources)
        for name, sources in MIXTURES.items()
    }


def loads(made: Any, state: dict[str, str]) -> bool:
    before = made.state_dict()
    try:
        made.load_state_dict(state)
    except fr.StateError:
        assert made.state_dict() == before, "what is refused changes nothing"
        return False
    return True


@pytest.mark.law(9)
def test_a_state_is_loaded_only_where_a_source_goes_on(root: Path) -> None:
    made, found = {name: make() for name, make in makers(root).items()}, set()
    starts = {name: each.state_dict() for name, each in made.items()}
    for name, each in made.items():
        batches = iter(each)
        state = [next(batches) for _ in range(4)][-1].state_dict()
        each.load_state_dict(starts[name])
        for other, its in made.items():
            if loads(its, state):
                found.add((name, other))
                its.load_state_dict(starts[other])
    expected = {(name, name) for name in made}
    expected |= {(f"mixture {name}", f"mixture {other}") for name, others in LOAD.items() for other in others}
    assert found == expected


@pytest.mark.law(9)
def test_a_source_that_was_left_out_for_a_time_comes_back_where_it_was_or_is_refused(root: Path) -> None:
    first = mixture(root, MIXTURES["a+b"])
    batches = iter(first)
    state = [next(batches) for _ in range(4)][-1].state_dict()
    left = mixture(root, MIXTURES["b"])
    left.load_state_dict(state)
    batches = iter(left)
    state = [next(batches) for _ in range(3)][-1].state_dict()
    for name in ("a+b", "a"):
        back = mixture(root, MIXTURES[name])
        back.load_state_dict(state)
        batch = next(iter(back))
        of_a = back.sources.index("a")
        assert batch.rows()[(batch.source == of_a).numpy()][0] == 10, "after the rows that it gave"
    for name in ("shuffled a+b", "a+c as b", "rows of a+b", "a as x+b", "c", "packed a"):
        assert not loads(mixture(root, MIXTURES[name]), state), name
    named = mixture(root, MIXTURES["a as x+b"], renamed={"a": "x"})
    named.load_state_dict(state)
    batch = next(iter(named))
    assert batch.rows()[(batch.source == 0).numpy()][0] == 10


@pytest.mark.law(9)
def test_every_door_refuses_a_state_of_the_other_kind(root: Path) -> None:
    plain, mixed = dataset(root, A, **ONE), mixture(root, MIXTURES["a"])
    of_plain, of_mixed = next(iter(plain)).state_dict(), next(iter(mixed)).state_dict()
    doors: list[Callable[[], object]] = [
        lambda: fr.Loader(dataset(root, A, **ONE)).load_state_dict(of_mixed),
        lambda: fr.Loader(mixture(root, MIXTURES["a"])).load_state_dict(of_plain),
        lambda: fr.Loader(mixture(root, MIXTURES["a"]), num_workers=1).load_state_dict(of_plain),
        lambda: mixed.remaining(of_plain),
        lambda: fr.Cursor.from_state(of_plain).remaining(mixed),
        lambda: fr.Cursor.from_state(of_mixed).remaining(plain),
        lambda: mixed.batch_at(0, 1, of_plain),
        lambda: plain.batch_at(0, 1, of_mixed),
        lambda: mixed.load_state_dict(of_plain, reset_epochs=True),
        lambda: fr.Cursor.merge([of_mixed, of_plain], world_size=2),
    ]
    for door in doors:
        with pytest.raises(fr.StateError, match=r"one dataset|of a mixture|not of one pass"):
            door()

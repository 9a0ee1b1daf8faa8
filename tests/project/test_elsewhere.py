"""A public name that is asked of another object is answered with where it is, and the answer works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.kafka import KafkaDataset
from fastresume.options.attributes import METHODS_OF_DATASETS

CLASSES = (fr.ParquetDataset, KafkaDataset, fr.Mixture, fr.Loader, fr.Batch, fr.Cursor, fr.Plan, fr.Stats)


@pytest.fixture
def program(tmp_path: Path) -> dict[str, Any]:
    """What a program calls its objects; a batch is of a mixture."""
    pq.write_table(pa.table({"x": range(40)}), tmp_path / "a.parquet")
    dataset = fr.ParquetDataset(tmp_path, batch_size=4, world=(0, 1))
    mixture = fr.Mixture({"web": (fr.ParquetDataset(tmp_path), 1.0)}, batch_size=4, world=(0, 1))
    loader = fr.Loader(dataset, threads=0)
    iterator = iter(loader)
    batch = next(iterator)
    return {
        "fr": fr,
        "name": "web",
        "dataset": dataset,
        "mixture": mixture,
        "loader": loader,
        "batch": batch,
        "iterator": iterator,
        "cursor": batch.cursor,
        "plan": dataset.plan(),
        "stats": loader.stats(),
    }


def names_of(of_class: type) -> set[str]:
    """The names that a user of a class may ask, which are not those of every mapping."""
    fields = getattr(of_class, "__dataclass_fields__", {})
    return {name for name in (*dir(of_class), *fields) if not name.startswith("_")} - set(dir(dict))


def test_every_name_of_another_class_is_answered_with_where_it_is(program: dict[str, Any]) -> None:
    names = set().union(*map(names_of, CLASSES), vars(program["loader"])) - {"_"}
    names = {name for name in names if not name.startswith("_")}
    assert {"plan", "dataset", "wait_share", "steps", "read_rows", "shares", "cursor"} < names
    asked = [kind for kind in program if kind not in ("fr", "name")]
    followed = 0
    for kind in (*asked, "loader of a mixture"):
        here = dict(program)
        if kind not in program:
            kind, here["loader"] = "loader", fr.Loader(program["mixture"], threads=0)  # noqa: PLW2901
        for name in sorted(names - set(dir(here[kind]))):
            with pytest.raises(AttributeError) as caught:
                getattr(here[kind], name)
            words = f" has no attribute '{name}': write "
            message = str(caught.value)
            assert words in message, message
            way = message.partition(words)[2]
            found = re.fullmatch(rf"(\S+)\.{name}(\(.*\))?(, of [a-zM. ]+)?", way)
            if found is not None and not way.startswith(("next(", "fr.Loader(dataset.map(")):
                owner = eval(found[1], here)  # noqa: S307  (it follows the answer)
                assert name in dir(owner), f"{kind}: {message}"
                of_class = owner if isinstance(owner, type) else type(owner)
                assert callable(getattr(of_class, name, None)) == bool(found[2]), message
                followed += 1
    assert followed > 600


@pytest.mark.parametrize(
    ("asked", "way"),
    [
        ("dataset.stats", "fr.Loader(dataset).stats()"),
        ("dataset.replay", "fr.Loader(dataset).replay(steps)"),
        ("dataset.step", "batch.step, of the last batch"),
        ("dataset.wait_share", "fr.Loader(dataset).stats().wait_share"),
        ("dataset.rank", "dataset.world.rank"),
        ("mixture.steps", "mixture.plan().steps"),
        ("mixture.read_rows", "mixture.datasets[name].read_rows(row_numbers)"),
        ("mixture.progress", "fr.Loader(mixture).progress()"),
        ("loader.plan", "loader.dataset.plan()"),
        ("loader.selection", "loader.dataset.selection"),
        ("loader.shares", "mixture.shares, of a fr.Mixture"),
        ("fr.Loader(mixture).shares", "loader.dataset.shares"),
        ("fr.Loader(mixture).read_rows", "loader.dataset.datasets[name].read_rows(row_numbers)"),
        ("iterator.schema", "dataset.schema"),
        ("batch.consumed_rows", "batch.cursor.consumed_rows"),
        ("batch.merge", "fr.Cursor.merge(states_in_rank_order)"),
        ("cursor.plan", "dataset.plan()"),
        ("plan.wait_share", "loader.stats().wait_share"),
        ("stats.num_rows", "dataset.num_rows"),
    ],
)
def test_the_answer_is_the_nearest_place(program: dict[str, Any], asked: str, way: str) -> None:
    with pytest.raises(AttributeError) as caught:
        eval(asked, program)  # noqa: S307  (what a program asks)
    assert str(caught.value).endswith(f": write {way}")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("dataset.schema.plan", r"a Schema has no attribute 'plan': write dataset\.plan\(\)$"),
        ("dataset.schema['x'].num_rows", r"a Field has no attribute 'num_rows': write dataset\.num_rows$"),
        ("dataset.schema['x'].dtyp", r"a Field has no attribute 'dtyp': did you mean \.dtype\?"),
        ("dataset.world.batch_size", r"a World has no attribute 'batch_size': write dataset\.batch_size$"),
        ("dataset.world.worldsize", r"a World has no attribute 'worldsize': did you mean \.world_size\?"),
        ("dataset.remaining().row", r"an Intervals has no attribute 'row': did you mean \.rows\?"),
        ("fr.Shuffle().window", r"a Shuffle has no attribute 'window'$"),
        ("fr.training.Preemption().num_rows", r"a Preemption has no attribute 'num_rows'$"),
        (
            "filtered.filter_report().plan",
            r"a FilterReport has no attribute 'plan': write dataset\.plan\(\)$",
        ),
    ],
)
def test_what_others_return_says_it_too(program: dict[str, Any], asked: str, words: str) -> None:
    paths = program["dataset"].paths
    program["filtered"] = fr.ParquetDataset(paths, batch_size=4, filter=fr.col("x") > 3, world=(0, 1))
    with pytest.raises(AttributeError, match=words):
        eval(asked, program)  # noqa: S307  (what a program asks)


def test_a_name_that_no_class_has_is_answered_as_before(program: dict[str, Any]) -> None:
    with pytest.raises(AttributeError, match=r"a Loader has no attribute 'epock': did you mean \.epoch\?"):
        program["loader"].epock  # noqa: B018
    with pytest.raises(AttributeError, match=r"a ParquetDataset has no attribute 'frobnicate'$"):
        program["dataset"].frobnicate  # noqa: B018
    assert not hasattr(program["dataset"], "__frobnicate__")


ROOMS = ("checkpoint", "distributed", "intervals", "kafka", "maxcompute", "sources", "testing", "training")


@pytest.mark.parametrize("room", ROOMS)
def test_a_name_of_a_room_that_is_asked_of_the_package_is_answered_with_the_room(room: str) -> None:
    there: Any = getattr(fr, room)
    for name in there.__all__:
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': write ") as caught:
            getattr(fr, name)
        way = str(caught.value).partition("write ")[2]
        written = way.removeprefix("from fastresume.").replace(" import ", ".")
        assert written.removeprefix("fr.") == f"{room}.{name}"


def test_a_hint_says_more_than_where_a_name_is() -> None:
    own = set().union(*map(names_of, CLASSES))
    assert own & set(METHODS_OF_DATASETS) <= {"watermark", "batch_of_row", "to_arrow", "batches"}

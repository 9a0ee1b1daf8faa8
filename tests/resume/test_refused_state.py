"""Laws 9 and 11: foreign and damaged state is refused, loudly and by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.jobs import fields_of, make, rows_of, text_of
from support.strategies import Dataset, DatasetSpec, plain_spec
from support.topologies import TAILS

Write = Callable[[DatasetSpec], Dataset]


@pytest.fixture
def paused(small_dataset: Dataset) -> tuple[fr.ParquetDataset, dict[str, str]]:
    """A dataset after three batches, and the state of its second."""
    dataset = make(small_dataset)
    batches = iter(dataset)
    state = [next(batches).state_dict() for _ in range(3)][1]
    return dataset, state


def assert_refused(dataset: fr.ParquetDataset, state: Any, *named: str) -> None:
    """Assert that a state is a StateError that names these, and that the dataset stays as it was."""
    before = dataset.state_dict()
    with pytest.raises(fr.StateError) as caught:
        dataset.load_state_dict(state)
    for name in named:
        assert name in str(caught.value)
    with pytest.raises(fr.StateError):
        fr.Loader(dataset).load_state_dict(state)
    assert dataset.state_dict() == before


@pytest.mark.law(9)
@pytest.mark.parametrize(
    "nothing",
    [
        None,
        {},
        [],
        [("fastresume", 1)],
        "{}",
        b"",
        3,
        True,
        {"state": 1},
        {"data": {"fastresume": "{}"}},
        {"fastresume": None},
        {"fastresume": ""},
        {"fastresume": "{}"},
        {"fastresume": "null"},
        {"fastresume": b"{}"},
        {"fastresume": []},
        {"fastresume": 1},
        {"fastresume": float("nan")},
        {1: 2},
    ],
    ids=repr,
)
def test_what_is_no_state_is_refused(
    paused: tuple[fr.ParquetDataset, dict[str, str]], nothing: object
) -> None:
    assert_refused(paused[0], nothing)


@each_of(
    ("given", "said"),
    [
        ("checkpoint.pt", "torch.load(path)"),
        (Path("run") / "state.json", "torch.load(path)"),
        ({"fastresume": {"fastresume": 1}}, "found dict"),
        ({"fastresume": b"{}"}, "found bytes"),
        ({"fastresume": 1}, "found int"),
    ],
)
def test_what_is_near_a_state_is_told_how_to_become_one(
    paused: tuple[fr.ParquetDataset, dict[str, str]], given: object, said: str
) -> None:
    assert_refused(paused[0], given, said)


@pytest.mark.parametrize("form", [str, str.encode, lambda text: bytearray(text.encode())])
def test_the_text_of_a_state_is_refused_and_told_how_to_read_it(
    paused: tuple[fr.ParquetDataset, dict[str, str]], form: Any
) -> None:
    dataset, state = paused
    text = form(json.dumps(state))
    assert_refused(dataset, text, type(text).__name__, "json.loads")


@pytest.mark.law(9)
def test_a_state_beside_other_keys_is_refused_and_names_them(
    paused: tuple[fr.ParquetDataset, dict[str, str]],
) -> None:
    dataset, state = paused
    assert_refused(dataset, {**state, "epoch": 3}, "epoch")
    assert_refused(dataset, {**fields_of(state), "more": 3}, "more")
    assert_refused(dataset, {"model": 1}, "fastresume", "model")


@pytest.mark.law(9)
def test_a_state_of_another_dataset_is_refused_and_names_both(
    paused: tuple[fr.ParquetDataset, dict[str, str]], write_dataset: Write
) -> None:
    dataset, state = paused
    other = make(write_dataset(plain_spec([40])))
    assert_refused(other, state, dataset.fingerprint, other.fingerprint, "103", "40")
    assert rows_of(list(other))[0] == list(range(10))


@pytest.mark.law(9)
@each_of(
    ("stated", "own", "words"),
    [
        ({}, {"shuffle": True}, "order: sequential, this one is shuffled: write shuffle=False"),
        ({"shuffle": True}, {}, "order: shuffled, this one is sequential: write shuffle=True"),
        ({"seed": 3}, {"seed": 4}, "seed: 3, this one is 4: write seed=3"),
        (
            {"block_rows": 5},
            {"block_rows": 7},
            "block_rows: 5, this one is 7: write shuffle=fr.Shuffle(block_rows=5)",
        ),
    ],
)
def test_a_state_of_another_order_says_what_to_write(
    small_dataset: Dataset, stated: dict[str, Any], own: dict[str, Any], words: str
) -> None:
    each = [{"shuffle": True, **how} if how else {} for how in (stated, own)]
    state = next(iter(make(small_dataset, **each[0]))).state_dict()
    said = f"the state is of another {words} to resume from it"
    assert_refused(make(small_dataset, **each[1]), state, said)


def altered(state: dict[str, str], **fields: Any) -> dict[str, str]:
    """The state with other fields, and the checksum that belongs to them."""
    return {"fastresume": oracle.checked({**fields_of(state), **fields})}


@pytest.mark.law(9)
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"fastresume": 2}, ["version 2", "version 1"]),
        ({"fastresume": 0}, ["version 0", "version 1"]),
        ({"fastresume": "1"}, ["version 1"]),
        ({"order": {"kind": "shuffled", "seed": 17}}, ["shuffled"]),
        ({"order": {"kind": "sequential", "seed": 17}}, ["seed"]),
        ({"order": "sequential"}, ["sequential"]),
        ({"order": None}, ["null"]),
        ({"selection": {"where": "x > 3"}}, []),
        ({"selection": 0}, []),
        ({"dataset": {"fingerprint": "0" * 32, "rows": 103}}, ["0" * 32, "103"]),
        ({"epoch": -1}, ["-1"]),
        ({"epoch": 2**53}, [str(2**53)]),
        ({"epoch": 2**64}, []),
        ({"epoch": 1.0}, ["1.0"]),
        ({"epoch": "1"}, []),
        ({"epoch": True}, []),
        ({"epoch": None}, []),
        ({"first_epoch": 1}, ["1"]),
        ({"cuts": [[1, 1, 10, 11]]}, ["11", "10"]),
        ({"cuts": [[1, 1, 10, 0]]}, []),
        ({"cuts": [[1, 1, 103, 1]]}, ["1"]),  # no row is left: that is the next pass
        ({"cuts": [[1, 1, 10, 10], [3, 1, 1, 1]]}, []),
        ({"cuts": [[1, 1, 10, 10], [1, 1, 4, 1]]}, []),
        ({"cuts": [[0, 1, 10, 1]]}, ["0"]),
        ({"cuts": [[1, 0, 10, 1]]}, ["0"]),
        ({"cuts": [[1, 1, 0, 1]]}, ["0"]),
        ({"cuts": [[3, 2, 10, 1]]}, ["3", "2"]),
        ({"cuts": [[1, 1, 10]]}, []),
        ({"cuts": [[1, 1, 10, 1, 1]]}, []),
        ({"cuts": [[2**52, 1, 2**52, 1]]}, []),
        ({"cuts": {}}, []),
        ({"consumed": [[90, 104]], "cuts": []}, []),
        ({"consumed": [[0, 103]], "cuts": []}, []),
        ({"consumed": [[0, 93]], "cuts": [[1, 1, 10, 1]]}, []),
        ({"consumed": [[5, 7], [1, 3]], "cuts": []}, []),
        ({"consumed": [[1, 3], [3, 5]], "cuts": []}, []),
        ({"consumed": [[1, 3], [2, 5]], "cuts": []}, []),
        ({"consumed": [[3, 3]], "cuts": []}, []),
        ({"consumed": [[5, 3]], "cuts": []}, []),
        ({"consumed": [[-1, 3]], "cuts": []}, []),
    ],
    ids=repr,
)
def test_a_state_that_says_what_none_of_ours_says_is_refused(
    paused: tuple[fr.ParquetDataset, dict[str, str]], fields: dict[str, Any], named: list[str]
) -> None:
    dataset, state = paused
    assert_refused(dataset, altered(state, **fields), *named)


@pytest.mark.law(9)
@pytest.mark.parametrize("tail", TAILS)
def test_no_tail_policy_makes_a_damaged_state_good(small_dataset: Dataset, tail: str) -> None:
    """A last short or padded batch is never counted in a cut: after it comes the next pass."""
    dataset = make(small_dataset, 10, tail=tail)
    state = dataset.state_dict()
    dataset.load_state_dict(altered(state, cuts=[[1, 1, 10, 10]]))  # a rest of three rows
    assert dataset.batches_left == (0 if tail == "drop" else 1)
    for cuts in ([[1, 1, 10, 11]], [[1, 1, 103, 1]], [[1, 1, 103, 2]], [[1, 1, 10, 10], [1, 1, 3, 1]]):
        assert_refused(dataset, altered(state, cuts=cuts))


@pytest.mark.law(9)
def test_a_state_without_one_of_its_keys_is_refused(
    paused: tuple[fr.ParquetDataset, dict[str, str]],
) -> None:
    dataset, state = paused
    for key in fields_of(state).keys() - {"earlier_batches"}:  # states of earlier releases lack it
        fields = {name: value for name, value in fields_of(state).items() if name != key}
        text = json.dumps(fields) if key == "check" else oracle.checked(fields)
        assert_refused(dataset, {"fastresume": text})


@pytest.mark.law(9)
def test_damage_at_any_byte_is_noticed(paused: tuple[fr.ParquetDataset, dict[str, str]]) -> None:
    dataset, state = paused
    text = text_of(state)
    before = dataset.state_dict()
    for index, character in enumerate(text):
        others = {chr(ord(character) ^ (1 << bit)) for bit in range(8)} | {*'0159af ,]}"'} - {character}
        for other in others:
            damaged = text[:index] + other + text[index + 1 :]
            with pytest.raises(fr.StateError):
                dataset.load_state_dict({"fastresume": damaged})
        for damaged in (text[:index], text[:index] + text[index + 1 :], text[index + 1 :]):
            with pytest.raises(fr.StateError):
                dataset.load_state_dict({"fastresume": damaged})
    for damaged in (text + "0", text + text, "x" + text, "[" + text + "]"):
        with pytest.raises(fr.StateError):
            dataset.load_state_dict({"fastresume": damaged})
    assert dataset.state_dict() == before
    dataset.load_state_dict(state)


@pytest.mark.law(9)
@example(text="\ud800")
@example(text="\0")
@given(text=st.text(st.characters(codec=None)))
def test_any_text_is_refused(small_dataset: Dataset, text: str) -> None:
    dataset = make(small_dataset)
    with pytest.raises(fr.StateError):
        dataset.load_state_dict({"fastresume": text})


@pytest.mark.law(9)
def test_nesting_without_end_is_refused(paused: tuple[fr.ParquetDataset, dict[str, str]]) -> None:
    dataset, state = paused
    assert_refused(dataset, {"fastresume": "[" * 1_000_000})
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert_refused(dataset, {**fields_of(state), "consumed": nested})


@pytest.mark.law(9)
def test_after_a_refused_state_the_iteration_goes_on(
    paused: tuple[fr.ParquetDataset, dict[str, str]],
) -> None:
    dataset, _ = paused
    iterator = iter(dataset)
    assert next(iterator).step == 3
    with pytest.raises(fr.StateError):
        dataset.load_state_dict({})
    assert next(iterator).step == 4


LONG = "x" * 1_000_000


@pytest.mark.law(9)
@pytest.mark.parametrize(
    "state",
    [
        {LONG: 1},
        {"fastresume": LONG},
        {"fastresume": {LONG: 1}},
        {"fastresume": 1, LONG: 1},
        {"fastresume": LONG, "other": LONG},
        {"fastresume": json.dumps(LONG)},
        {"fastresume": json.dumps({"fastresume": LONG})},
        {"fastresume": json.dumps({"fastresume": list(range(100_000))})},
        {"fastresume": json.dumps({"fastresume": 1, LONG: 1})},
        {"fastresume": json.dumps({"fastresume": 1, "check": LONG})},
        {f"{number}{LONG[:1000]}": 1 for number in range(1000)},
        [LONG] * 3,
        LONG,
        {"check": LONG},
        {"dataset": {"fingerprint": LONG, "rows": 103}},
        {"selection": LONG},
        {"order": {"kind": LONG}},
        {"order": {"kind": "sequential", LONG: 1}},
        {"consumed": [[i, i + 1] for i in range(0, 100_000, 3)]},
        {"cuts": [[1, 1, 1, 2**54]] * 100_000},
    ],
    ids=lambda state: repr(state)[:40],
)
def test_what_is_said_of_a_foreign_state_is_of_bounded_length(
    paused: tuple[fr.ParquetDataset, dict[str, str]], state: Any
) -> None:
    """Some lines, whatever somebody put there; the dataset stays as it was."""
    dataset, own = paused
    fields = fields_of(own)
    states = [state]
    if isinstance(state, dict) and set(state) <= set(fields):
        altered = {**fields, **state}
        states = [{"fastresume": json.dumps(altered)}]
        if "check" not in state:
            states.append({"fastresume": oracle.checked(altered)})
    for one in states:
        with pytest.raises(fr.StateError) as of_dataset:
            dataset.load_state_dict(one)
        with pytest.raises(fr.StateError) as of_merge:
            fr.Cursor.merge([own, one])
        for caught in (of_dataset, of_merge):
            assert len(str(caught.value)) < 800


@pytest.mark.law(9)
def test_what_is_no_state_is_told_what_to_pass(paused: tuple[fr.ParquetDataset, dict[str, str]]) -> None:
    dataset, own = paused
    assert_refused(dataset, {"model": {}, "data": own}, "what it holds under 'data' has: pass that alone")
    batch = next(iter(dataset))
    assert_refused(dataset, batch, "it is a Batch, and its state_dict() returns one")
    assert_refused(
        dataset, {"model": {}, "at": batch}, "a Batch is under 'at', whose state_dict() returns one"
    )
    assert_refused(dataset, {"_snapshot": {}, "_num_yielded": 0}, "StatefulDataLoader", "batch.state_dict()")
    assert_refused(dataset, {"epoch": 3}, "its keys are ['epoch']: pass what batch.state_dict()")

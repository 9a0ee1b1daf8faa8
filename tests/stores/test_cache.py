"""Blocks of objects on a local disk: the same batches, fewer requests, and never an error."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.fault_proxy import proxied
from support.object_server import S3Server


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    """What goes wrong with a cache is told: a test that expects nothing hears of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def _ids(dataset: fr.ParquetDataset) -> list[list[int]]:
    return [batch["id"].tolist() for batch in dataset]


def _opened(address: str, server: S3Server, cache: Path, **how: object) -> fr.ParquetDataset:
    options = {**server.options, **how.pop("options", {})}  # type: ignore[dict-item]
    return fr.ParquetDataset(
        address,
        batch_size=64,
        storage_options=options,
        cache=fr.Cache(data=cache, data_bytes=how.pop("data_bytes", None)),  # type: ignore[arg-type]
        **how,  # type: ignore[arg-type]
    )


def _read(address: str, server: S3Server, cache: Path, passes: int) -> tuple[Any, ...]:
    """A dataset, and what each pass gave."""
    dataset = _opened(address, server, cache)
    return dataset, *(_ids(dataset) for _ in range(passes))


def _asked(dataset: fr.ParquetDataset) -> tuple[int, int, int]:
    counts = dataset._spec.manifest.stores.counts()
    return counts.requests, counts.bytes_asked, counts.bytes_from_cache


def _blocks(cache: Path) -> list[Path]:
    return sorted(path for path in cache.glob("*/blocks/*/*/*") if path.is_file())


@pytest.fixture
def expected(tree: Path) -> list[list[int]]:
    return _ids(fr.ParquetDataset(tree, batch_size=64))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_second_pass_asks_for_no_byte(
    server: S3Server, tree: Path, address: str, tmp_path: Path, shuffle: bool
) -> None:
    local = fr.ParquetDataset(tree, batch_size=64, shuffle=shuffle)
    dataset = _opened(address, server, tmp_path, shuffle=shuffle)
    assert _ids(dataset) == _ids(local)
    before = _asked(dataset)
    assert _ids(dataset) == _ids(local)
    after = _asked(dataset)
    assert after[:2] == before[:2]
    assert after[2] > before[2]
    other = _opened(address, server, tmp_path, shuffle=shuffle)
    listed = _asked(other)
    assert listed[1] == 0, "footers are kept as well"
    with fr.Loader(other, num_workers=0) as loader:
        for _ in range(2):
            batches = [batch["id"].tolist() for batch in loader]
        assert len(batches) == 93
        assert loader.stats()["bytes_from_cache"] > listed[2]
        assert (loader.stats()["requests"], loader.stats()["bytes_asked"]) == listed[:2]


def test_a_cache_keeps_whole_blocks_of_large_objects(server: S3Server, tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    table = pa.table({"id": pa.array(range(600_000)), "x": pa.array(range(600_000, 1_200_000))})
    pq.write_table(table, path, row_group_size=200_000, compression="none", use_dictionary=False)
    server.put("large", "a.parquet", path.read_bytes())
    expected = _ids(fr.ParquetDataset(path, batch_size=1000))
    for columns in (["id"], ["x", "id"]):
        dataset = fr.ParquetDataset(
            "s3://large",
            batch_size=1000,
            columns=columns,
            storage_options=server.options,
            cache=fr.Cache(data=tmp_path / "cache"),
        )
        assert _ids(dataset) == expected
    # Each byte is asked for once, and those of the footer twice.
    assert _asked(dataset)[2] > 0
    again = _opened("s3://large", server, tmp_path / "cache")
    assert sum(map(len, _ids(again))) == 600_000
    assert _asked(again)[1] == 0


def test_workers_and_a_pickled_dataset_use_the_cache(
    server: S3Server, tree: Path, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    def by_workers(dataset: fr.ParquetDataset) -> list[list[int]]:
        with fr.Loader(dataset, num_workers=2) as loader:
            return [batch["id"].tolist() for batch in loader]

    dataset = _opened(address, server, tmp_path)
    assert by_workers(dataset) == by_workers(fr.ParquetDataset(tree, batch_size=64))
    copy = pickle.loads(pickle.dumps(dataset))
    assert _ids(copy) == expected
    assert _asked(copy)[1] == 0


def test_a_replaced_object_has_blocks_of_its_own(server: S3Server, tmp_path: Path) -> None:
    path, sizes = tmp_path / "a.parquet", set()
    for first in (1_000, 2_000):
        table = pa.table({"id": pa.array(range(first, first + 640))})
        pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
        sizes.add(path.stat().st_size)
        server.put("replaced", "a.parquet", path.read_bytes())
        assert _ids(_opened("s3://replaced", server, tmp_path / "cache"))[0][0] == first
    assert len(sizes) == 1, "nothing but the tag tells them apart"


@pytest.mark.parametrize("damage", ["a bit", "its end", "all of it", "another's"])
def test_a_damaged_block_is_noticed_and_asked_for_again(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]], damage: str
) -> None:
    assert _ids(_opened(address, server, tmp_path)) == expected
    blocks = _blocks(tmp_path)
    for path in blocks:
        content = bytearray(path.read_bytes())
        if damage == "a bit":
            content[len(content) // 3] ^= 4
        elif damage == "its end":
            del content[-20:]
        elif damage == "all of it":
            content.clear()
        else:
            content[:] = blocks[path == blocks[0]].read_bytes()
        path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"fr\.Cache\(data='.*'\): a block is damaged") as warned:
        dataset, got = _read(address, server, tmp_path, 1)
    assert got == expected
    assert len(warned) == 1
    assert _asked(dataset)[1] > 0
    healed = _opened(address, server, tmp_path)
    assert _ids(healed) == expected
    assert _asked(healed)[1] == 0


def test_a_full_cache_keeps_what_it_has(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    whole = _opened(address, server, tmp_path / "whole")
    assert _ids(whole) == expected
    # Room for what came with footers, which has all bytes once, for the data of a file, and no block more.
    most = sum(path.stat().st_size for path in _blocks(tmp_path / "whole")) * 3 // 5
    cache = tmp_path / "part"
    passed = []
    for _ in range(4):
        dataset = _opened(address, server, cache, data_bytes=most, columns=["id"])
        assert _ids(dataset) == expected
        kept = sum(path.stat().st_size for path in _blocks(cache))
        assert most // 3 < kept <= most
        passed.append((kept, _asked(dataset)[1]))
    assert passed[1:] == [passed[1]] * 3, "what is kept stays, and what is not is asked for once"
    assert 0 < passed[1][1] < passed[0][1]
    assert passed[1][1] <= dataset._spec.manifest.stores.counts().bytes_needed
    # Blocks that a user removed make room.
    for path in _blocks(cache):
        path.unlink()
    assert _ids(_opened(address, server, cache, data_bytes=most)) == expected
    assert sum(path.stat().st_size for path in _blocks(cache)) > most // 3


def test_two_processes_share_a_cache_and_its_bound(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    most = 100_000
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            is_right = False
            try:
                is_right = all(
                    _ids(_opened(address, server, tmp_path, data_bytes=most)) == expected for _ in range(2)
                )
            finally:
                os._exit(0 if is_right else 1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    kept = sum(path.stat().st_size for path in _blocks(tmp_path))
    assert 0 < kept <= most
    assert not list(tmp_path.glob("*/writing/*"))


@pytest.mark.parametrize(
    "times", [8, pytest.param(200, marks=pytest.mark.slow(reason="ten times as many kills"))]
)
def test_a_cache_survives_kills(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]], times: int
) -> None:
    assert _ids(_opened(address, server, tmp_path / "whole")) == expected
    most = len(_blocks(tmp_path / "whole"))
    part, amid = tmp_path / "part", 0
    for number in range(times):
        child = os.fork()
        if child == 0:
            try:
                _ids(_opened(address, server, part))
                signal.pause()
            finally:
                os._exit(1)
        # Killed after the first block, or the second one, and so on.
        while len(_blocks(part)) < 1 + number % most:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "a child has failed"
            time.sleep(0.0005)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        amid += len(_blocks(part)) < most
        if number % 5 == 4:
            assert _ids(_opened(address, server, part)) == expected
        for path in _blocks(part):
            path.unlink()
    assert amid > 0, "no kill came amid writes"
    dataset = _opened(address, server, part)
    assert _ids(dataset) == expected
    assert not list(part.glob("*/writing/*")), "what killed processes left is removed"
    assert _ids(_opened(address, server, part)) == expected


def test_what_a_killed_process_wrote_is_removed_and_what_another_writes_is_left(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    assert _ids(_opened(address, server, tmp_path)) == expected
    directory = next(tmp_path.glob("*/writing"))
    (directory / "1-1").write_bytes(b"half a block")
    (directory / "2-1").write_bytes(b"half a block")
    for path in _blocks(tmp_path):
        path.unlink()
    with (directory / "2-1").open("rb") as written:
        fcntl.flock(written, fcntl.LOCK_EX)
        assert _ids(_opened(address, server, tmp_path)) == expected
        assert [path.name for path in directory.iterdir()] == ["2-1"]


def test_what_a_killed_process_wrote_is_removed_where_nothing_is_to_be_written(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    assert _ids(_opened(address, server, tmp_path)) == expected
    left = next(tmp_path.glob("*/writing")) / "1-1"
    left.write_bytes(b"half a block")
    os.mkfifo(left.with_name("2-1"))  # to open it would take for ever
    dataset = _opened(address, server, tmp_path)
    assert _ids(dataset) == expected
    assert _asked(dataset)[1] == 0
    assert not left.exists()


def test_a_block_that_somebody_made_longer_does_not_loosen_the_bound(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    assert _ids(_opened(address, server, tmp_path)) == expected
    most = sum(path.stat().st_size for path in _blocks(tmp_path)) * 2 // 3
    cache = tmp_path / "part"
    assert _ids(_opened(address, server, cache, data_bytes=most)) == expected
    damaged = _blocks(cache)[0]
    damaged.write_bytes(b"more" * damaged.stat().st_size)
    with pytest.warns(UserWarning, match="a block is damaged"):
        assert _ids(_opened(address, server, cache, data_bytes=most)) == expected
    assert sum(path.stat().st_size for path in _blocks(cache)) <= most


def test_files_of_others_in_a_cache_are_left_alone(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    others = [tmp_path / "mine", tmp_path / "fastresume-blocks-1" / "blocks" / "mine"]
    others[1].parent.mkdir(parents=True)
    for path in others:
        path.write_text("mine")
    assert _ids(_opened(address, server, tmp_path, data_bytes=1 << 30)) == expected
    assert [path.read_text() for path in others] == ["mine", "mine"]
    again = _opened(address, server, tmp_path)
    assert _ids(again) == expected
    assert _asked(again)[1] == 0


@pytest.mark.parametrize("trouble", ["a file in its place", "a file amid it", "a lost count"])
def test_a_cache_that_fails_is_told_once_and_the_store_is_read(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]], trouble: str
) -> None:
    cache = tmp_path / "cache"
    if trouble == "a file in its place":
        cache.write_text("mine")
    else:
        assert _ids(_opened(address, server, cache)) == expected
        count = next(cache.glob("*/used"))
        if trouble == "a lost count":
            count.unlink()
            count.mkdir()
        blocks = next(cache.glob("*/blocks"))
        blocks.rename(tmp_path / "gone")
        if trouble == "a file amid it":
            blocks.write_text("mine")
    text = r"fr\.Cache\(data='.*cache'\): can't .* a block: .*the store is read"
    with pytest.warns(UserWarning, match=text) as warned:
        _, *passes = _read(address, server, cache, 2)
    assert passes == [expected, expected]
    assert len(warned) == 1
    if trouble == "a file in its place":
        assert cache.read_text() == "mine"


def test_a_warning_that_is_an_error_loses_no_batch(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    assert _ids(_opened(address, server, tmp_path)) == expected
    dataset = _opened(address, server, tmp_path)
    for path in _blocks(tmp_path):
        path.write_bytes(b"damaged")
    got: list[list[int]] = []
    with pytest.raises(UserWarning, match="a block is damaged"):
        got.extend(_ids(dataset))
    assert got + _ids(dataset) == expected


def test_a_directory_that_is_removed_is_rebuilt(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    dataset = _opened(address, server, tmp_path / "cache")
    assert _ids(dataset) == expected
    (tmp_path / "cache").rename(tmp_path / "gone")
    assert _ids(dataset) == expected
    assert _blocks(tmp_path / "cache")


def test_faults_and_a_cache_change_no_batch(
    server: S3Server, address: str, tmp_path: Path, expected: list[list[int]]
) -> None:
    with proxied(server.port, share=0.05) as proxy:
        for _ in range(2):
            dataset = _opened(address, server, tmp_path, options={"endpoint_url": proxy.endpoint})
            assert _ids(dataset) == expected
        assert _asked(dataset)[1] == 0


def test_no_name_and_no_block_tells_a_secret(server: S3Server, address: str, tmp_path: Path) -> None:
    named = {"aws_secret_access_key": "hunter2-secret"}
    dataset = _opened(address, server, tmp_path, options=named)
    _ids(dataset)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 6
    for path in files:
        assert "bucket" not in str(path.relative_to(tmp_path))
        assert "hunter2" not in str(path)
        assert b"hunter2" not in path.read_bytes()
    # Other credentials find the same blocks.
    other = _opened(address, server, tmp_path)
    _ids(other)
    assert _asked(other)[1] == 0


def test_local_files_are_read_where_they_are(tree: Path, tmp_path: Path, expected: list[list[int]]) -> None:
    dataset = fr.ParquetDataset(tree, batch_size=64, cache=fr.Cache(data=tmp_path / "cache", data_bytes=1))
    assert _ids(dataset) == expected
    assert not (tmp_path / "cache").exists()


def test_what_is_wrong_about_a_cache_is_said(tree: Path) -> None:
    with pytest.raises(ValueError, match=r"data_bytes=10 .* write fr\.Cache\(data="):
        fr.Cache(data_bytes=10)
    with pytest.raises(ValueError, match=r"data_bytes of fr\.Cache must be at least 1"):
        fr.Cache(data="cache", data_bytes=0)
    with pytest.raises(
        ValueError, match=r"data of fr\.Cache must be a local path, found the address 's3://bucket/x'"
    ):
        fr.Cache(data="s3://bucket/x")
    with pytest.raises(TypeError, match=r"data of fr\.Cache must be a path"):
        fr.Cache(data=5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="keeps nothing"):
        fr.Cache()
    with pytest.raises(TypeError, match=r"cache must be a Cache, found .*: write cache=fr\.Cache\(manifest="):
        fr.ParquetDataset(tree, batch_size=64, cache="cache")  # type: ignore[arg-type]

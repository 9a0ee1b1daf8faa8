"""How many requests a pass makes, and of how many bytes: each byte is asked for once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.each_of import each_of
from support.object_server import S3Server


@pytest.fixture(scope="module")
def small_groups(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """A file of 100 row groups, six in each MiB; gives its address and size."""
    path = tmp_path_factory.mktemp("groups") / "0.parquet"
    columns = {f"f{number:02d}": np.arange(200_000, dtype=np.float32) for number in range(20)}
    table = pa.table({"id": np.arange(200_000), **columns})
    pq.write_table(table, path, row_group_size=2_000, compression=None, use_dictionary=False)
    server.put("groups", "0.parquet", path.read_bytes())
    return "s3://groups/0.parquet", path.stat().st_size


@each_of("shuffle", [False, True])
@each_of("threads", [None, 2])
def test_a_cold_cache_asks_for_each_block_once(
    server: S3Server, small_groups: tuple[str, int], tmp_path: Path, shuffle: bool, threads: int | None
) -> None:
    address, size = small_groups
    how = {"storage_options": server.options, "columns": ["f03"], "shuffle": shuffle}
    how |= {"cache": fr.Cache(data=tmp_path)}
    dataset = fr.ParquetDataset(address, batch_size=1000, **how)
    for is_cold in (True, False):
        before = dataset._spec.manifest.stores.counts()
        with fr.Loader(dataset, **({} if threads is None else {"threads": threads})) as loader:
            assert sum(batch.num_rows for batch in loader) == 200_000
        after = dataset._spec.manifest.stores.counts()
        asked = after.bytes_asked - before.bytes_asked
        assert asked < 1.15 * size if is_cold else asked == 0
        assert after.requests - before.requests <= ((size >> 20) + 5 if is_cold else 0)


APART = ["f03", "f15"]
EVERY_OTHER = [f"f{number:02d}" for number in range(0, 20, 2)]


@each_of("shuffle", [None, fr.Shuffle(window_rows=8000)])
@each_of(("columns", "most_of_a_group"), [(APART, 2), (EVERY_OTHER, 10)])
def test_columns_that_lie_apart_take_no_more_than_their_bytes(
    server: S3Server, tmp_path: Path, columns: list[str], most_of_a_group: int, shuffle: fr.Shuffle | None
) -> None:
    path, groups = tmp_path / "apart.parquet", 8
    table = pa.table({f"f{number:02d}": np.arange(16_000, dtype=np.float32) for number in range(20)})
    pq.write_table(table, path, row_group_size=2_000, compression=None, use_dictionary=False)
    server.put("apart", path.name, path.read_bytes())
    how: dict[str, Any] = {} if shuffle is None else {"shuffle": shuffle}
    dataset = fr.ParquetDataset(
        f"s3://apart/{path.name}", batch_size=1000, columns=columns, storage_options=server.options, **how
    )
    assert sum(batch.num_rows for batch in dataset) == 16_000
    found = pq.read_metadata(path)
    chunks = [found.row_group(group).column(place) for group in range(groups) for place in range(20)]
    needed = sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in columns)
    counts = dataset._spec.manifest.stores.counts()
    # The footer is read when the dataset is opened, and by the first pass.
    assert counts.bytes_asked <= 1.15 * needed + 2 * (found.serialized_size + (64 << 10))
    assert counts.requests <= groups * most_of_a_group + 8


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("files", "is_cached"), [(100, False), (50, True), pytest.param(10_000, False, marks=pytest.mark.slow)]
)
def test_a_small_object_is_one_request_of_a_pass_and_none_of_the_first(
    server: S3Server, tmp_path: Path, files: int, is_cached: bool
) -> None:
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "a.parquet")
    for number in range(files):
        server.put("little", f"{files}/{number:04d}.parquet", (tmp_path / "a.parquet").read_bytes())
    dataset = fr.ParquetDataset(
        f"s3://little/{files}/",
        batch_size=100,
        storage_options=server.options,
        cache=fr.Cache(data=tmp_path / "cache") if is_cached else None,
    )
    counts = dataset._spec.manifest.stores.counts
    # Beside one for each: the pages of the listing, and whether tables are above.
    assert counts().requests <= files + 8 + files // 1000
    for number in range(2):
        before = counts().requests
        assert sum(batch.num_rows for batch in dataset) == 100 * files
        assert counts().requests - before == (files if number and not is_cached else 0)


@pytest.mark.parametrize("condition", ["id", "f"])
def test_a_page_index_costs_a_filter_no_request(server: S3Server, tmp_path: Path, condition: str) -> None:
    rows = 40_000
    id_, f, g = np.arange(rows), *np.random.default_rng(0).random((2, rows), np.float32)
    table = pa.table({"id": id_, "f": f, "g": g})
    wanted = {"id": fr.col("id") < 1000, "f": fr.col("f") < 0.01}[condition]
    requests, bytes_asked = [], []
    for index in (False, True):
        path = tmp_path / f"{index}.parquet"
        how = {"compression": None, "use_dictionary": False, "data_page_size": 4096}
        pq.write_table(table, path, row_group_size=10_000, write_page_index=index, **how)
        server.put("filtered", path.name, path.read_bytes())
        read: dict[str, Any] = {"batch_size": 100, "filter": wanted, "columns": ["id", "g"]}
        dataset = fr.ParquetDataset(f"s3://filtered/{path.name}", storage_options=server.options, **read)
        local = fr.ParquetDataset(path, **read)
        assert [batch["id"].tolist() for batch in dataset] == [batch["id"].tolist() for batch in local]
        counts = dataset._spec.manifest.stores.counts()
        requests.append(counts.requests)
        bytes_asked.append(counts.bytes_asked)
        assert counts.bytes_asked <= 1.15 * counts.bytes_needed
    assert requests[1] <= requests[0] <= 20
    assert bytes_asked[1] <= 1.05 * bytes_asked[0]


def test_bloom_filters_of_row_groups_are_asked_for_together(server: S3Server, tmp_path: Path) -> None:
    groups = 40
    table = pa.table({"id": np.random.default_rng(0).permutation(groups * 500)})
    path = tmp_path / "bloom.parquet"
    pq.write_table(table, path, row_group_size=500, bloom_filter_options={"id": {"ndv": 500}})
    server.put("filtered", path.name, path.read_bytes())
    dataset = fr.ParquetDataset(
        f"s3://filtered/{path.name}",
        batch_size=10,
        tail="short",
        filter=fr.col("id").isin([3, 77, 1000]),
        storage_options=server.options,
    )
    assert sorted(row for batch in dataset for row in batch["id"].tolist()) == [3, 77, 1000]
    assert dataset.filter_report().left_out_by_bloom_filters > 0.8 * groups * 500
    assert dataset._spec.manifest.stores.counts().requests <= 16

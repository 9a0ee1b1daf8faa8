"""What a pass over a store takes stays below what `plan()` states, with hundreds of requests in flight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.child import MIB, Child, forget_peak, peak, resident
from support.fault_proxy import proxied
from support.object_server import S3Server

PREFETCH_BYTES = 1 << 20
NEEDED_BYTES = 256 << 10
GAP_BYTES = 5 * NEEDED_BYTES
"""So far apart, each column chunk is a request of its own."""


def grown(address: str, options: dict[str, str], read_bytes: int, threads: int) -> tuple[int, int]:
    """By how much a pass lets the process grow, and what the plan states."""
    how = {"batch_size": 4096, "storage_options": options, "read_bytes": read_bytes, "columns": ["needed_*"]}
    for _ in range(2):  # the first pass starts what the process keeps
        dataset = fr.ParquetDataset(address, **how)
        plan = dataset.plan()
        forget_peak()
        before = resident()
        with fr.Loader(dataset, threads=threads, prefetch_bytes=PREFETCH_BYTES) as loader:
            for batch in loader:
                assert batch.num_rows == 4096
        after = peak()
        address = address.replace("/small", "/whole")
    return after - before, plan.bytes_per_rank + threads * plan.bytes_per_thread + PREFETCH_BYTES


def put_groups(server: S3Server, directory: Path, name: str, mib: int, group_mib: int) -> None:
    rows = group_mib * MIB // 32
    table = pa.table({f"needed_{n}": np.random.default_rng(n).random(rows) for n in range(4)})
    with pq.ParquetWriter(directory / "a", table.schema, compression="none", use_dictionary=False) as writer:
        for _ in range(mib // group_mib):
            writer.write_table(table, row_group_size=rows)
    server.put("memory", f"{name}/a.parquet", (directory / "a").read_bytes())


@pytest.mark.parametrize(
    ("group_mib", "read_mib"),
    [(16, 2)]
    + [
        pytest.param(group, read, marks=pytest.mark.slow(reason="hundreds of MiB"))
        for group in (1, 16, 64)
        for read in (16, 64, 256)
    ],
)
def test_a_pass_takes_no_more_than_its_plan_states(
    server: S3Server, tmp_path: Path, group_mib: int, read_mib: int
) -> None:
    put_groups(server, tmp_path, "small", group_mib, group_mib)
    put_groups(
        server, tmp_path, "whole", max(read_mib * 3 // 2, 3 * group_mib) // group_mib * group_mib, group_mib
    )
    with Child() as child:
        took, stated = child.call(grown, "s3://memory/small", server.options, read_mib * MIB, 2, seconds=200)
    print(f"groups of {group_mib} MiB, {read_mib} MiB ahead: {took / MIB:.0f} of {stated / MIB:.0f} MiB")
    assert took < stated


@pytest.mark.slow
def test_hundreds_of_requests_in_flight_take_no_more_than_the_plan_states(
    server: S3Server, tmp_path: Path
) -> None:
    rows, drawn = NEEDED_BYTES // 8, np.random.default_rng(0)
    columns: dict[str, pa.Array] = {}
    for number in range(40):
        columns[f"needed_{number}"] = pa.array(drawn.random(rows))
        gap = pa.py_buffer(drawn.bytes(GAP_BYTES))
        columns[f"other_{number}"] = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(GAP_BYTES // rows), rows, [None, gap]
        )
    pq.write_table(pa.table(columns), tmp_path / "a", compression="none", use_dictionary=False)
    content = (tmp_path / "a").read_bytes()
    for name, files in {"small": 1, "whole": 10}.items():
        for number in range(files):
            server.put("flight", f"{name}/{number}.parquet", content)
    with proxied(server.port, delay_seconds=0.3) as proxy, Child() as child:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        took, stated = child.call(grown, "s3://flight/small", options, 96 * MIB, 2, seconds=200)
    print(f"{took / MIB:.0f} of {stated / MIB:.0f} MiB")
    assert took < stated

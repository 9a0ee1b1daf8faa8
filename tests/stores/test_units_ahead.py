"""The rows that sequences and bins are made of are asked for ahead, as rows are."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from support.each_of import each_of
from support.fault_proxy import Proxy
from support.jobs import arrays_of, assert_batch_values
from support.object_server import S3Server

PATIENCE_SECONDS = 20


class MeetingProxy(Proxy):
    """Has a request wait until another one is under way, if told to; none does after one that was alone."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.under_way = self.most = 0
        self.waits = False
        self.change = threading.Condition()

    def fault(self) -> str | None:
        with self.change:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
            self.change.notify_all()
            if self.waits and self.most < 2:
                self.waits = self.change.wait_for(lambda: self.most > 1, PATIENCE_SECONDS)
            self.under_way -= 1
        return super().fault()


UNITS = [(fr.Packed("tokens", length=1000), 100), (fr.Bins("tokens", cost=10_000), 10)]


@each_of(("unit", "batch_size"), UNITS)
@each_of("order", [{}, {"shuffle": True, "seed": 1}])
def test_several_requests_for_lists_are_under_way(
    server: S3Server, tmp_path: Path, order: dict[str, Any], unit: Any, batch_size: int
) -> None:
    values = np.random.default_rng(5).integers(0, 1 << 31, 2_000_000, dtype=np.int32)
    offsets = np.arange(0, len(values) + 1, 500, dtype=np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    table = pa.table({"tokens": tokens})
    pq.write_table(table, tmp_path / "0.parquet", row_group_size=500, compression="none")
    address = server.put_tree("bucket", tmp_path, f"lists-{len(order)}-{batch_size}/")
    whose = {"batch_size": batch_size, "rank": 0, "world_size": 1}
    how: dict[str, Any] = {"unit": unit, **whose, **order}
    proxy = MeetingProxy(server.port)
    serving = threading.Thread(target=proxy.serve_forever)
    serving.start()
    try:
        options = {**server.options, "endpoint_url": proxy.endpoint}
        dataset = fr.ParquetDataset(address, storage_options=options, **how)
        proxy.most, proxy.waits = 0, True
        with fr.Loader(dataset, threads=1) as loader:
            for one, other in zip(loader, fr.ParquetDataset(tmp_path, **how), strict=True):
                assert_batch_values(one, arrays_of(other))
        assert proxy.most > 1
    finally:
        proxy.shutdown()
        proxy.server_close()
        serving.join()

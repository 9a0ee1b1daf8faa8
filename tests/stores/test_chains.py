"""Laws 1 and 3 over objects: whatever topologies a job lives through, each row is delivered exactly once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import oracle
from support.chains import live_through
from support.jobs import FEW, WORKERS, Job, Ledger
from support.object_server import S3Server
from support.strategies import plain_spec, written
from support.topologies import TAILS, Topology, chains, orders, selections

NUMBERS = itertools.count()


@pytest.mark.law(1)
@pytest.mark.law(3)
@pytest.mark.law(8)
@FEW
@given(rows=st.integers(1, 60), data=st.data())
def test_no_chain_of_topologies_loses_or_repeats_a_row_of_objects(
    server: S3Server, rows: int, data: st.DataObject
) -> None:
    chosen = data.draw(selections(rows))
    selected = range(rows) if chosen is None else chosen.selected(rows)
    shuffle = data.draw(orders(len(selected)))
    legs = data.draw(chains(len(selected), max_steps=6, workers=WORKERS, tails=TAILS, small=True))
    threads = data.draw(st.sampled_from((None, None, 2)))
    stays = data.draw(st.booleans())
    spec = plain_spec([rows // 3, 0, rows // 5], [], [rows - rows // 3 - rows // 5])
    with written(spec) as dataset:
        table = oracle.read_table(dataset.directory)
        address = server.put_tree("chains", dataset.directory, f"{next(NUMBERS)}/")
        there = {"paths": address, "storage_options": server.options}

        def live(topology: Topology, state: Mapping[str, str] | None) -> Job:
            # A job may begin on a disk and go on in a store.
            source = there if stays or state is not None else None
            how = {"shuffle": shuffle, "chosen": chosen, "threads": threads}
            return Job(dataset, topology, table=table, source=source, state=state, **how)

        live_through(legs, Ledger(selected), live)

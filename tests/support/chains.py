"""The lives of one job, each of which is killed and resumed as the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from support.jobs import Job, Ledger, do_step
from support.topologies import Leg, Topology


def live_through(
    legs: Sequence[Leg], ledger: Ledger, live: Callable[[Topology, Mapping[str, str] | None], Job]
) -> None:
    """Lives, kills and resumes, then ends the pass; `live` gives the job of a topology and a state."""
    state = None
    for leg in legs:
        job = live(leg.topology, state)
        for _ in range(leg.kept):
            do_step(job, ledger)
        state = job.state()
        ledger.save()
        for _ in range(leg.lost):  # after the cursor that was saved: the next life reads them again
            job.step()
        job.kill()
    last = live(legs[-1].topology, state)
    epoch = last.oracle.epoch
    while last.oracle.epoch == epoch:
        do_step(last, ledger)
    last.kill()

"""The iterator in a worker of torch's DataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.reading.prefetch import Reader
from fastresume.reading.spec import ReadSpec
from fastresume.reading.torch_dataloader.transport import Departing
from fastresume.reading.transform import make_batch
from fastresume.reading.workers.process import settle
from fastresume.state.session import in_session
from fastresume.state.shared_cursor import SharedCursor, new_iteration, new_ticket


class WorkerIterator(Iterator[Batch]):
    """The batches of one worker of torch's DataLoader: of K workers, each makes every K-th batch of the rank.

    It begins at the shared cursor when the first one is asked for. After an error it raises for ever: if it
    ended, the pass would seem to have ended, and the rest would be missing without a word.
    """

    def __init__(self, spec: ReadSpec, shared: SharedCursor, worker: int, workers: int) -> None:
        settle()
        self._iteration = new_iteration()
        self._spec = spec
        self._shared = shared
        self._worker = worker
        self._workers = workers
        self._sent = 0
        self._has_failed = False
        self._reader: Reader | None = None
        self._warning: str | None = None

    def __next__(self) -> Batch:
        if self._has_failed:
            raise _core.FastresumeError(
                f"worker {self._worker} of {self._workers} raised an error before, and can't continue: call "
                "iter() on the DataLoader again"
            )
        try:
            return self._next()
        except StopIteration:
            raise
        except BaseException:
            self._has_failed = True
            raise

    def _next(self) -> Batch:
        reader = self._reader or self._open()
        delivered = reader.front()
        if delivered is None:
            raise StopIteration
        reader.advance()
        # What one worker's transforms draw from, those of the others do, too.
        draws = self._spec.draws if self._worker == 0 else None
        batch = make_batch(self._spec, self._share, self._end_cursor, delivered, draws)
        if self._warning is None and draws is not None:
            self._warning = draws.take()
        masked_rows, origin = self._spec.masked_rows, batch._origin
        masked_rows.count = masked_rows.counted(delivered, origin)
        if delivered.damage or origin.marks:
            masked_rows.tell(delivered, origin)
        place = self._worker + self._sent * self._workers
        sent = replace(self._ticket, place=place, ends_pass=delivered.ends_pass, warning=self._warning)
        self._warning = None
        self._sent += 1
        return Departing(batch._tensors, batch._origin, sent)

    def _open(self) -> Reader:
        spec, worker, workers = self._spec, self._worker, self._workers
        reading = self._shared.read_as_worker(worker, self._iteration)
        if in_session(reading.cursor, spec.named_session) != reading.cursor:
            raise _core.StateError(
                "a state was loaded whose rows are those of another session, and this worker began before: "
                "make a new DataLoader after load_state_dict()"
            )
        cursor, self._end_cursor = spec.bounds(reading.cursor)
        planned = spec.pass_from(cursor, workers)
        if planned.batches_left == 0:
            # The main process can't see an iterator that yields nothing, so the next pass follows at once.
            self._warning = spec.dropped_text(planned) if worker == 0 else None
            cursor, self._end_cursor = spec.bounds(planned.next_pass())
            planned = spec.pass_from(cursor, workers)
        self._end_cursor = spec.end(planned, self._end_cursor)
        self._ticket = new_ticket(self._shared, reading, worker, workers, self._iteration)
        self._share = spec.share(planned, cursor)
        place = (spec.world.rank, spec.world.world_size, worker, workers)
        self._reader = spec.reader(cursor, planned, place)
        spec.draws.is_alone = True
        return self._reader

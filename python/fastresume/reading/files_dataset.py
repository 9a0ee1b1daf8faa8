"""The base class of `ParquetDataset`: rows that have numbers and places in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastresume.batch.batch import Batch
from fastresume.buffers import Intervals
from fastresume.options.rows import Intervals as RowIntervals
from fastresume.options.unknown import takes_no_other
from fastresume.reading import random_access
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.resumable import ResumableDataset
from fastresume.reading.row_places import SomeRows, locate
from fastresume.state.cursor import Cursor


@takes_no_other("dataset")
class FilesDataset(ResumableDataset):
    """The batches of files from a cursor on, and any of their rows by its number.

    Attributes:
        spec: what it reads, a frozen `FilesSpec`.
    """

    _spec: FilesSpec

    @property
    def paths(self) -> list[str]:
        """The given `paths`, as strings."""
        return list(self._spec.paths)

    @property
    def num_file_rows(self) -> int:
        """The number of rows of all files: row numbers are below it, whichever rows are selected."""
        return self._spec.num_file_rows

    def read_rows(self, row_numbers: SomeRows) -> Batch:
        """The rows with these numbers as a `Batch`, in this order; a number may come more than once.

        The batch belongs to no pass: its `cursor`, `state_dict()`, `epoch` and `step` raise.

        Args:
            row_numbers: row numbers as `batch.rows()` has them, in `[0, num_file_rows)`, selected or not; or
                `fr.Intervals`, or a `fr.Split`, for their rows in the order of the files.

        Raises:
            IndexError: if a row number is not in the files.
            DataError, SourceError: if a file can't be read, or is damaged.

        Examples:
            >>> dataset.read_rows([7, 7, 3])["label"].shape
            torch.Size([3])
        """
        return random_access.read_rows(self._spec, row_numbers)

    def batch_of_row(
        self, epoch: int, row_number: int, state: Mapping[str, Any] | Cursor | None = None
    ) -> tuple[Batch, int]:
        """The batch that a row is delivered with in a pass, made again, and the row's place in it.

        The batch is that of the rank which gets the row, whichever it is, with what transforms make of it: a
        transform sees whole batches, so what happens to one row may depend on the others. The time depends
        neither on the row's number nor on the step. How the pass was read is known as for `batch_at`, and
        generators stay as they are. The cursor stays, too.

        Args:
            epoch: the number of the pass, as `batch.epoch` counts it.
            row_number: the row's number, as `batch.rows()` has it.
            state: a state of that pass, where it was read elsewhere.

        Raises:
            IndexError: if the row is not in the files, is not selected, or no batch of the pass has it.
            StateError: if the state is of another dataset, order or epoch.
            TypeError: if the dataset has units: rows lie in several of them, or share one.
            ValueError: if its step was made under a cut that this many ranks can't share.

        Examples:
            >>> batch, place = dataset.batch_of_row(epoch=0, row_number=70)
            >>> batch.step, place, int(batch.rows()[place])
            (2, 6, 70)
        """
        return random_access.batch_of_row(self._spec, self._shared_cursor, epoch, row_number, state)

    def locate(self, row_numbers: SomeRows) -> list[tuple[str, int, int]]:
        """The places of rows: a list of (path, row group, row in the row group), in the given order.

        Raises:
            IndexError: if a row number is not in the files.

        Examples:
            >>> path, row_group, row = dataset.locate([53])[0]
            >>> row_group, row
            (0, 3)
        """
        return locate(self._spec.manifest, row_numbers)

    def remaining(self, state: Mapping[str, Any] | Cursor | None = None) -> RowIntervals:
        """The rows that a state's pass has still to deliver, as `fr.Intervals` of row numbers.

        Given to any dataset over these files as `rows=`, they make a dataset of what is left: under another
        filter, order or number of files, or in another reader.

        Of packed sequences, they are the rows that have a token in one that is not delivered. A row that is
        in a delivered one, too, is among them: read again, no token is lost, and those of its part are
        delivered twice. Empty lists, and those after a file's last sequence, are not. The files' levels are
        read.

        Args:
            state: a state of this dataset; the present one if None.

        Raises:
            StateError: if the state is of another dataset, selection of rows or order.
            DataError, SourceError: if a file can't be read, of packed sequences.

        Examples:
            >>> dataset.remaining(batch.state_dict())
            fr.Intervals([[32, 100]])
        """
        cursor = self._shared_cursor.cursor if state is None else Cursor.from_state(state)._core
        return RowIntervals(random_access.remaining_rows(self._spec, cursor))

    def _remaining_rows(self, cursor: Cursor) -> list[tuple[str, int, Intervals]]:
        """The rest of a cursor's pass, by file and row group: see `Cursor.remaining`.

        Raises:
            StateError: if the cursor is of another dataset, selection or order.
        """
        rows = random_access.remaining_rows(self._spec, cursor._core)
        return random_access.by_group(self._spec, rows)

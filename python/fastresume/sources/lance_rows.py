"""Lance datasets as a source of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastresume.amounts import plural
from fastresume.options.checks import quoted
from fastresume.options.unknown import takes_no_other
from fastresume.packages import optional
from fastresume.sources.row_source import Segment

if TYPE_CHECKING:
    import pyarrow as pa


class LanceRows:
    """The rows of a version of a Lance dataset: its fragments are segments. `fr.sources.lance()` makes it.

    Threads and forks: reads run in Lance's own threads, which no fork takes along. A pickle holds the address
    and the version.
    """

    def __init__(self, dataset: Any, storage_options: Mapping[str, str] | None = None) -> None:
        self._dataset = dataset
        self._opened_as = dataset.uri, dataset.version, storage_options
        self._fragments = dataset.get_fragments()

    def snapshot(self) -> str:
        """Names of segments tell the rows: files of Lance never change, and each has its own name."""
        return "lance"

    def segments(self) -> list[Segment]:
        """One for each fragment: its files, and how many rows were deleted since they were written."""
        return [Segment(_name(fragment), fragment.count_rows()) for fragment in self._fragments]

    def schema(self) -> pa.Schema:
        """The columns."""
        return self._dataset.schema

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> Any:
        """The rows `[start, stop)` of a fragment that are not deleted."""
        rows = stop - start  # in one batch: a table of Lance's batches costs a quarter more
        asked = self._fragments[segment].scanner(columns=columns, offset=start, limit=rows, batch_size=rows)
        return asked.to_reader()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return lance, self._opened_as


def _name(fragment: Any) -> str:
    files = ", ".join(file.path for file in fragment.data_files())
    deleted = fragment.num_deletions
    less = f" less {plural(deleted, 'row')}" if deleted else ""
    return f"fragment {fragment.fragment_id}: {files}{less}"


@takes_no_other("fr.sources.lance")
def lance(
    uri_or_dataset: Any,
    version: int | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> LanceRows:
    """The rows of a Lance dataset, as a `RowSource` for `fr.ArrowDataset`.

    Args:
        uri_or_dataset: a path or an address of one, or a `lance.LanceDataset`.
        version: which version, by its number or tag; the newest one if None.
        storage_options: how its store is reached, as `lance.dataset()` takes it.

    Raises:
        ModuleNotFoundError: if Lance is not installed.
        TypeError: if it is neither.
        ValueError: if there is none, as Lance says it.

    The fingerprint covers the columns, and the files of each fragment with what was deleted of them. So a
    state fits later versions that change neither. With `on_change="append"`, these may have more fragments.

    Examples:
        >>> source = fr.sources.lance("rows.lance")  # doctest: +SKIP
        >>> dataset = fr.ArrowDataset(source, batch_size=32, shuffle=True)  # doctest: +SKIP
    """
    package = optional("lance", "fr.sources.lance()", "pylance")
    if isinstance(uri_or_dataset, package.LanceDataset):
        opened = uri_or_dataset if version is None else uri_or_dataset.checkout_version(version)
        return LanceRows(opened, storage_options)
    if not isinstance(uri_or_dataset, str) and not hasattr(uri_or_dataset, "__fspath__"):
        raise TypeError(f"expected a path or a lance.LanceDataset, found {quoted(uri_or_dataset)}")
    options = None if storage_options is None else dict(storage_options)
    return LanceRows(
        package.dataset(uri_or_dataset, version=version, storage_options=options), storage_options
    )

"""Names that the pages for users of other tools replace: the errors know each of them, too."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import fastresume as fr
from fastresume.options.attributes import METHODS_OF_JAGGED, METHODS_OF_LOADERS, OF_NAMES
from fastresume.options.hints import OF_CALLS
from support.each_of import each_of

PAGES = sorted(Path(__file__).parents[2].glob("docs/coming-from/*.md"))
HEAD = re.compile(r"\| [^|]+ \| fastresume \|")

CALLS = {
    "ParquetDataset": fr.ParquetDataset,
    "Mixture": fr.Mixture,
    "Loader": fr.Loader,
    "KafkaDataset": fr.kafka.KafkaDataset,
    "fr.maxcompute.open": fr.maxcompute.open,
}
ARGUMENTS = {
    name for what, call in CALLS.items() for name in (*inspect.signature(call).parameters, *OF_CALLS[what])
}
OF_STREAMS = {*METHODS_OF_LOADERS, *dir(fr.ParquetDataset), *dir(fr.Loader)}
METHODS = {"batch": {*dir(fr.Batch)}, "jagged": {*METHODS_OF_JAGGED, *dir(fr.Jagged)}}
STREAMS = {"", "stream", "dataset", "loader", "pipeline", "sampler"}
NAMES = {*OF_NAMES, *fr.__all__, *dir(builtins)}


def replaced(page: str) -> Iterator[str]:
    """The code in the first column of the page's tables of what to write instead."""
    is_inside = False
    for line in page.splitlines():
        is_inside = HEAD.match(line) is not None or (is_inside and line.startswith("|"))
        if is_inside:
            yield from re.findall(r"`([^`]+)`", line.split("|")[1])


def unknown(code: str) -> Iterator[str]:
    """The names in a piece of another tool's code for which no error says what to write."""
    yield from set(re.findall(r"(?<![\w.])(\w+)=(?!=)", code)) - ARGUMENTS
    if re.fullmatch(r"\w+(: \S+)?", code):
        yield from {code.partition(":")[0]} - ARGUMENTS - NAMES
    for of, called, _, alone in re.findall(r"(?<![\w.])(\w*(?:\.\w+)*)\.(\w+)(?=\()|^()\.(\w+)$", code):
        name, known = called or alone, OF_STREAMS if of in STREAMS else METHODS.get(of, NAMES)
        if not {name, *of.split(".")} & known:
            yield f"{of}.{name}"
    yield from set(re.findall(r"(?<![\w.])(\w+)\(", code)) - NAMES


@each_of("page", PAGES)
def test_each_name_that_a_page_replaces_is_known_to_the_errors(page: Path) -> None:
    codes = list(replaced(page.read_text()))
    assert codes or page.stem == "pretraining-loaders"
    assert {code: found for code in codes if (found := [*unknown(code)])} == {}


def test_a_name_that_no_error_knows_is_found() -> None:
    assert [*unknown('Zebra("x", strips=7).trot()')] == ["strips", ".trot", "Zebra"]
    assert [*unknown("stream.trot()")] == ["stream.trot"]
    assert [*unknown("strips")] == [*unknown("strips: 7")] == ["strips"]

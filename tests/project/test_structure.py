"""Rooms: a file takes from rooms before its own, and inside its own room without a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "rust/fastresume/src"
CRATES_BESIDE = ["fastresume-stores", "fastresume-python", "fastresume-laws"]
PACKAGE = ROOT / "python/fastresume"

RUST_ROOMS = [
    "error",
    "parallel",
    "simd",
    "memory",
    "intervals",
    "schema",
    "source",
    "arrow",
    "format",
    "ipc",
    "dataset",
    "order",
    "resume",
    "decode",
    "projection",
    "filter",
    "units",
    "batch",
    "pipeline",
    "fuzzing",
]

PYTHON_ROOMS = [
    "_core",
    "amounts",
    "messages",
    "packages",
    "files",
    "rng",
    "rebuilt",
    "buffers",
    "platform",
    "memory_file",
    "options",
    "tables",
    "sources",
    "intervals",
    "state",
    "agreement",
    "batch",
    "filter",
    "columns",
    "audit",
    "reading",
    "packing",
    "mixing",
    "plan",
    "rows_dataset",
    "dataset",
    "arrow_dataset",
    "kafka",
    "maxcompute",
    "mixture",
    "distributed",
    "loader",
    "testing",
    "training",
    "checkpoint",
    "integrations",
    "bench",
    "commands",
    "cli",
    "__main__",
    "__init__",
]

MOST_LINES = 600


def test_each_room_of_the_core_takes_from_rooms_before_it() -> None:
    imports = dict(rust_imports(CORE))
    check_rooms(imports, RUST_ROOMS)
    rooms = re.findall(r"^(?:pub )?mod (\w+);", (CORE / "lib.rs").read_text(), re.MULTILINE)
    assert sorted(set(rooms) - {"test_files"}) == sorted(RUST_ROOMS)


def test_each_room_of_the_package_takes_from_rooms_before_it() -> None:
    check_rooms(dict(python_imports()), PYTHON_ROOMS)


@pytest.mark.parametrize("crate", CRATES_BESIDE)
def test_the_files_of_the_other_crates_import_each_other_without_a_circle(crate: str) -> None:
    check_circles(dict(rust_imports(ROOT / "rust" / crate / "src")))
    assert {path.name for path in (ROOT / "rust").iterdir()} == {*CRATES_BESIDE, "fastresume"}


def test_a_forward_import_and_a_circle_are_seen() -> None:
    with pytest.raises(AssertionError, match="batch/jagged takes from reading/spec"):
        check_rooms({"batch/jagged": {"reading/spec"}, "reading/spec": set()}, PYTHON_ROOMS)
    with pytest.raises(AssertionError, match="circle"):
        check_rooms({"batch/a": {"batch/b"}, "batch/b": {"batch/a"}}, PYTHON_ROOMS)
    block = "if TYPE_CHECKING:\n    from fastresume.reading.spec import ReadSpec"
    assert set(imported(ast.parse(block))) == {"reading/spec"}


def test_each_room_begins_with_its_sentence() -> None:
    for path in sorted(CORE.rglob("mod.rs")):
        text = path.read_text()
        assert re.match(r"//! [A-Z].*\.\n", text), f"{path} does not begin with the room's sentence"
        face = r"^//.*$|^#!?\[[^\n]*\]$|^(pub )?mod \w+;$|^pub(\([a-z]+\))? use [^;]*;$"
        code = re.sub(face, "", text, flags=re.MULTILINE).strip()
        assert not code, f"{path} holds code: {code[:80]}"
    for path in sorted(PACKAGE.rglob("__init__.py")):
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_files_of_code_have_at_most_600_lines() -> None:
    folders = ("rust", "python", "benches", "fuzz", "release")
    sources = chain.from_iterable((ROOT / folder).rglob("*") for folder in folders)
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources
        if path.suffix in (".py", ".pyi", ".rs") and "target" not in path.parts
        if (count := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long


def test_no_two_files_of_tests_have_one_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names)), "pytest collects one of them alone"


SLEEPS = {
    "it looks again, until a deadline": {
        "support/apache_broker.py",
        "support/elastic.py",
        "support/ray_job.py",
        "support/watching.py",
        "support/worker_ends.py",
    },
    "it looks again, until others have done something, or nothing any more": {
        "reading/test_prefetch.py",
        "robustness/test_held_memory.py",
        "stores/test_cache.py",
    },
    "what it tests takes its time, or comes late": {
        "reading/test_threads_in_next.py",
        "resume/test_resume.py",
        "robustness/test_interrupts.py",
        "stores/test_exits.py",
        "stores/test_random_outages.py",
        "support/maxcompute_server.py",
        "support/page_server.py",
        "training/test_same_ranks.py",
    },
    "chance says when something is killed": {
        "packing/test_units_index.py",
        "support/killed_ranks.py",
        "training/test_preemption.py",
    },
}
"""Files of tests that let time pass, by the reason: others wait for events, or by `in_time`."""


def test_tests_wait_for_events_and_let_no_time_pass() -> None:
    sleeping = re.compile(r"\btime\.sleep\(")
    tests = ROOT / "tests"
    found = {
        str(path.relative_to(tests)) for path in tests.rglob("*.py") if sleeping.search(path.read_text())
    }
    assert found == set(chain.from_iterable(SLEEPS.values()))


NAMED_OTHERWISE = {
    "its functions are what others call": {
        "rust/fastresume/src/batch/slots/interleave.rs",
        "rust/fastresume/src/dataset/listing.rs",
        "rust/fastresume/src/filter/filter_layout.rs",
        "rust/fastresume/src/format/encoding/fallback.rs",
        "rust/fastresume/src/format/metadata/thrift_types.rs",
        "rust/fastresume/src/pipeline/window_segments.rs",
        "rust/fastresume/src/simd/scatter.rs",
        "rust/fastresume-stores/src/retry.rs",
        "python/fastresume/audit/log_format.py",
        "python/fastresume/bench/rivals.py",
        "python/fastresume/files.py",
        "python/fastresume/platform.py",
        "python/fastresume/filter/pruning.py",
        "python/fastresume/filter/resolve.py",
        "python/fastresume/rng.py",
        "python/fastresume/state/offsets.py",
        "python/fastresume/tables/file_io.py",
    },
    "several types of one kind": {
        "rust/fastresume/src/decode/flat/byte_array_codes.rs",
        "rust/fastresume/src/resume/lanes.rs",
        "rust/fastresume-python/src/columns.rs",
        "python/fastresume/checkpoint/dcp_storage.py",
        "python/fastresume/checkpoint/restore.py",
        "python/fastresume/checkpoint/save.py",
        "python/fastresume/reading/torch_dataloader/transport.py",
        "python/fastresume/reading/workers/messages.py",
    },
    "a type of another file has methods here": {"rust/fastresume/src/resume/growth.rs"},
    "a room's own type, and Clippy wants no file of its room's name": {
        "rust/fastresume/src/intervals/set.rs",
        "rust/fastresume/src/order/pass_order.rs",
    },
    "named after the framework": {
        "python/fastresume/integrations/dcp.py",
        "python/fastresume/integrations/lightning.py",
        "python/fastresume/integrations/transformers.py",
    },
}
"""Files whose public types have other names, by the reason."""


def test_a_file_has_a_type_or_function_of_its_name() -> None:
    named = {path: names for path, names in public_names() if not any(is_named(path, name) for name in names)}
    listed = set(chain.from_iterable(NAMED_OTHERWISE.values()))
    assert set(named) == listed, {path: named.get(path) for path in set(named) ^ listed}


def test_a_type_of_the_core_and_the_stores_has_a_name_of_its_own() -> None:
    files: dict[str, set[str]] = {}
    for crate in ("fastresume", "fastresume-stores"):
        for path in (ROOT / "rust" / crate / "src").rglob("*.rs"):
            if "fuzzing" not in path.parts and not path.stem.startswith("test") and "_tests" not in path.stem:
                for name in re.findall(rf"^{VISIBLE}?{TYPE}", rust_code(path), re.MULTILINE):
                    files.setdefault(name, set()).add(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in files.items() if len(paths) > 1} == {}


def test_the_page_of_the_architecture_names_files_that_are_there() -> None:
    named = re.findall(
        r"`((?:rust|python|tests|docs)/[\w/.-]+)`", (ROOT / "docs/ARCHITECTURE.md").read_text()
    )
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


FRAMEWORKS = {"accelerate", "lightning", "pytorch_lightning", "torchdata", "transformers"}


def test_frameworks_are_imported_by_their_integration_alone() -> None:
    for path in PACKAGE.rglob("*.py"):
        used = {name.split(".")[0] for name in modules_named(ast.parse(path.read_text()))} & FRAMEWORKS
        expected = {path.stem} if path.parent.name == "integrations" else set()
        if path.parent.name != "bench":  # which measures beside others, where they are installed
            assert used - {"pytorch_lightning"} <= expected, f"{path} imports {used}"


OWN_TO_LINUX = {
    "python": r"sys\.platform|/proc/|/sys/|memfd_create|pidfd|prctl|epoll|MSG_(NO|CMSG)|posix_fallocate",
    "rust": r"target_os|target_vendor|\"/proc|\"/sys/",
}
"""What other systems lack, or do otherwise."""

PLATFORMS = {"python/fastresume/platform.py", "rust/fastresume/src/memory/platform.rs"}


def test_what_other_systems_lack_is_asked_by_one_file_of_each_language() -> None:
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "rust").glob("*/src/**/*.rs")]
    asking = {
        str(path.relative_to(ROOT))
        for path in sources
        if re.search(OWN_TO_LINUX["python" if path.suffix == ".py" else "rust"], path.read_text())
    }
    assert asking == PLATFORMS


def check_rooms(imports: Mapping[str, set[str]], rooms: list[str]) -> None:
    """Fail where a file takes from a room behind its own, or where files import each other in a circle."""
    places = {room: place for place, room in enumerate(rooms)}
    unknown = {room_of(name) for name in imports} - set(places)
    assert not unknown, f"rooms that have no place in the order: {sorted(unknown)}"
    for name, used in imports.items():
        for other in used:
            assert places[room_of(other)] <= places[room_of(name)], f"{name} takes from {other}"
    check_circles(imports)


def check_circles(imports: Mapping[str, set[str]]) -> None:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' -> '.join(error.args[1])}") from None


def room_of(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


# ----------------------------------------------------------------------------------------------------- Names

VISIBLE = r"(?:pub(?:\([a-z]+\))? )"
TYPE = r"(?:unsafe )?(?:struct|enum|trait|union) (\w+)"


def public_names() -> Iterator[tuple[str, list[str]]]:
    """Each file that has public types, with their names and those of its public functions."""
    for crate in ("fastresume", "fastresume-stores", "fastresume-python"):
        for path in sorted((ROOT / "rust" / crate / "src").rglob("*.rs")):
            types = re.findall(rf"^{VISIBLE}{TYPE}", rust_code(path), re.MULTILINE)
            others = re.findall(rf"^{VISIBLE}(?:const )?(?:fn|type) (\w+)", rust_code(path), re.MULTILINE)
            if (
                types
                and "fuzzing" not in path.parts
                and path.name not in ("lib.rs", "mod.rs", "test_files.rs")
            ):
                yield str(path.relative_to(ROOT)), types + others
    for path in sorted(PACKAGE.rglob("*.py")):
        body = ast.parse(path.read_text()).body
        types = [node.name for node in body if isinstance(node, ast.ClassDef)]
        functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
        if any(not name.startswith("_") for name in types) and not path.name.startswith("__"):
            yield (
                str(path.relative_to(ROOT)),
                [name for name in types + functions if not name.startswith("_")],
            )


def rust_code(path: Path) -> str:
    """The text of a file without its tests."""
    return path.read_text().partition("#[cfg(test)]\nmod tests")[0]


def is_named(path: str, name: str) -> bool:
    """Whether a name has the words of its file's name one after another, in the singular or the plural."""
    wanted = [singular(word) for word in Path(path).stem.split("_")]
    words = [singular(word) for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def singular(word: str) -> str:
    plurals = [("ies", "y"), ("ves", "f"), ("ches", "ch"), ("xes", "x"), ("ss", "ss"), ("s", "")]
    found = [word.lower().removesuffix(end) + one for end, one in plurals if word.lower().endswith(end)]
    return found[0] if found else word.lower()


# ---------------------------------------------------------------------------------------------------- Python


def python_imports() -> Iterator[tuple[str, set[str]]]:
    """Each file of the package by its path, with the files that it names; those for annotations, too."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE).with_suffix(""))
        yield name, set(imported(ast.parse(path.read_text()))) - {name}


def imported(tree: ast.AST) -> Iterator[str]:
    for module in modules_named(tree):
        parts = module.split(".")
        if parts[0] == "fastresume" and module != "fastresume.__version__":
            yield from file_of(parts[1:])


def file_of(parts: list[str]) -> Iterator[str]:
    """The file that an import names: the longest beginning of the dotted name that is one."""
    for length in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:length])
        if path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists():
            yield "/".join(parts[:length])
            return
        if path.is_dir():
            yield "/".join([*parts[:length], "__init__"])
            return
    yield "__init__"


def modules_named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# ------------------------------------------------------------------------------------------------------ Rust


def test_only_what_reads_many_files_starts_threads() -> None:
    threaded = {
        str(path.relative_to(CORE).with_suffix(""))
        for path in CORE.rglob("*.rs")
        if re.search(r"\b(?:thread|parallel)::", path.read_text())
        and path.name != "mod.rs"
        and not path.stem.endswith("_tests")
    }
    assert threaded == {
        "parallel",
        "batch/fetches",
        "dataset/arrow_files",
        "dataset/found_files",
        "dataset/row_parts",
        "projection/dictionary_scan",
        "units/index",
        "filter/page_stats",
        "pipeline/thread_pool",
    }


def rust_imports(source: Path) -> Iterator[tuple[str, set[str]]]:
    """Each file of a crate by its path, with the files that it names; those in its tests, too."""
    files = {rust_module(path, source): path for path in sorted(source.rglob("*.rs"))}
    for module, path in files.items():
        if path.name not in ("lib.rs", "mod.rs") and module != ("test_files",):
            used = rust_files_named(path.read_text(), module, files)
            # A face may name any file of its room: who uses it there could go in a circle unseen.
            faces = [other for other in used if other[0] == module[0] and files[other].name == "mod.rs"]
            assert not faces, f"{path} takes from the face of its own room: name the file"
            yield "/".join(module), {"/".join(other) for other in used if other != ("test_files",)}


def rust_module(path: Path, source: Path) -> tuple[str, ...]:
    """The path of a file's module below its crate; that of a `mod.rs` is its folder's."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] == "mod" else parts


def rust_files_named(
    text: str, module: tuple[str, ...], files: Mapping[tuple[str, ...], Path]
) -> set[tuple[str, ...]]:
    text = re.sub(r"//.*", "", text)
    assert "crate::{" not in text, f"{module} takes from several rooms at once: name each"
    named = [tuple(name.split("::")) for name in re.findall(r"\bcrate::(\w+(?:::\w+)*)", text)]
    # In a block, as of tests, `super` is the file itself.
    beside = re.findall(r"^(?:pub )?use super::(\w+(?:::\w+)*)", text, re.MULTILINE)
    named += [(*module[:-1], *name.split("::")) for name in beside]
    # What is named behind the file is an item of it.
    heads = ({name[:length] for length in range(1, len(name) + 1)} & files.keys() for name in named)
    return {max(found, key=len) for found in heads if found} - {module}

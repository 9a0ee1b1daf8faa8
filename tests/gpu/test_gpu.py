"""What needs a CUDA device. Each check has a process of its own, where CUDA stays: other tests fork."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import checks
import pytest
import torch

import fastresume as fr

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "benches" / "measure" / "gpu.py"
BATCHES = 100_000

needs_device = pytest.mark.skipif(
    torch.cuda.device_count() == 0, reason="there is no CUDA device: what is shown here, only one can show"
)


def ended(*command: str, seconds: int = 600) -> str:
    """What a program prints, which ends well."""
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def measured(part: str, *arguments: str, seconds: int = 600) -> dict[str, Any]:
    printed = ended(str(PROGRAM), part, *arguments, seconds=seconds)
    print(printed)
    found: dict[str, Any] = json.loads(printed)[part]
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("gpu")
    checks.write(directory)
    return directory


@pytest.fixture(scope="module")
def program() -> Any:
    """The program of measurements, as a module."""
    specification = importlib.util.spec_from_file_location("gpu", PROGRAM)
    assert specification is not None
    assert specification.loader is not None
    found = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(found)
    return found


@needs_device
@pytest.mark.parametrize("check", sorted(checks.CHECKS))
def test_a_check_on_a_device(data: Path, check: str) -> None:
    ended(checks.__file__, check, str(data))


@needs_device
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sums_of_batches_on_the_device_are_those_of_the_files() -> None:
    found = measured("sums", "--batches", str(BATCHES), seconds=1800)
    assert (found["batches"], found["wrong"]) == (BATCHES, 0)


@needs_device
@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_sanitizer_finds_nothing() -> None:
    found = measured("sanitize", seconds=1800)
    if "missing" in found:
        pytest.skip(found["missing"])
    for tool in ("memcheck", "initcheck"):
        assert found[tool]["status"] == 0, found[tool]
        assert any("ERROR SUMMARY: 0 errors" in line for line in found[tool]["said"]), found[tool]


@needs_device
@pytest.mark.slow
def test_copies_run_beside_kernels_on_a_stream_of_their_own() -> None:
    found = measured("trace")
    assert found["copies"] > 0
    assert found["copies on a stream of their own"] == found["copies"]
    assert found["copies of page-locked memory"] > 0.9 * found["copies"]
    assert found["beside kernels"] > 0.5


@needs_device
@pytest.mark.slow
def test_how_long_the_device_waits_is_measured() -> None:
    found = measured("idle")
    assert set(found) == {
        "model alone", "Loader(device=)", "Loader, batch.to(device)", "DataLoader(pin_memory=True)"
    }  # fmt: skip


def test_sums_without_a_device_tell_right_from_wrong(tmp_path: Path, program: Any) -> None:
    """That the program itself can find something wrong is shown where there is no device."""
    path = program.write(tmp_path, 1 << 14)
    device = torch.device("cpu")

    def swapped(batch: fr.Batch) -> fr.Batch:
        if batch.step % 4 == 1:
            batch["mixed"][:2] = batch["mixed"][:2].flip(0)
        if batch.step % 4 == 2:
            batch["tokens"].values[-1] += 1
        return batch

    plain = fr.Loader(program.dataset_of(path, 512), threads=1)
    assert program.check_sums(plain, "threads", True, 40, device) == (40, 0)
    dense = fr.Loader(program.dataset_of(path, 512, jagged=False), threads=1)
    assert program.check_sums(dense, "threads", False, 10, device) == (10, 0)
    torn = fr.Loader(program.dataset_of(path, 512).map(swapped), threads=1)
    assert program.check_sums(torn, "threads", True, 40, device) == (40, 20)
    for loader in (plain, dense, torn):
        loader.close()


def test_the_share_of_copies_beside_kernels_is_counted_once(program: Any) -> None:
    kernels = [{"ts": 0.0, "dur": 10.0}, {"ts": 5.0, "dur": 10.0}, {"ts": 30.0, "dur": 5.0}]
    copies = [{"ts": 8.0, "dur": 10.0}, {"ts": 20.0, "dur": 5.0}, {"ts": 29.0, "dur": 10.0}]
    assert program.overlap(copies, kernels) == 7 + 0 + 5

"""torchtitan's trainer is killed on two ranks, and goes on on one: each sequence is trained on once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastresume.cli import main
from support.frameworks import marks_of
from support.rehearsal import program, run
from support.titan_on_cpu import import_torchtitan

pytestmark = marks_of("torchtitan")

ROOT = Path(__file__).resolve().parents[2]
SEQUENCES, LENGTH, STEPS = 192, 17, 12
"""Of 17 tokens each, as the example packs them: 12 steps of 16 are one pass."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A folder whose data are documents of one sequence each, which begin with their number."""
    (tmp_path / "data").mkdir()
    for part, numbers in enumerate(np.array_split(np.arange(SEQUENCES), 3)):
        tokens = (numbers[:, None] + 500 * (np.arange(LENGTH) > 0)).astype(np.int32)
        pq.write_table(pa.table({"tokens": tokens.tolist()}), tmp_path / "data" / f"{part}.parquet")
    return tmp_path


def sequences_in_tokens(module: torch.nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor | None:
    """The numbers of the sequences, which an embedding sees first."""
    return inputs[0][:, 0] if isinstance(module, torch.nn.Embedding) else None


def live(directory: Path, **how: Any) -> list[list[list[int]]]:
    """Run the example once, on the CPU."""

    def work() -> None:
        import_torchtitan()
        program(ROOT / "examples/with_torchtitan.py")()

    return run(work, directory, is_launched=True, rows_of=sequences_in_tokens, **how)


@pytest.mark.timeout(600)
def test_the_trainer_goes_on_with_another_data_parallel_degree(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = live(directory, world_size=2, kill_at=5)
    # Rank 1 may have begun the step in which rank 0 was killed.
    trained = [sequence for rank in first for batch in rank[:5] for sequence in batch]
    assert len(trained) == len(set(trained)) == 5 * 16
    assert len(list((directory / "outputs/checkpoint").glob("step-*/.metadata"))) == 5

    (second,) = live(directory, world_size=1)
    assert len(second) == 2 * (STEPS - 5), "the same global batch is two batches of one rank"
    trained += [sequence for batch in second for sequence in batch]
    assert sorted(trained) == list(range(SEQUENCES))

    assert main(["audit", str(directory / "audit"), "--passes", "1"]) == 0
    assert "PROVEN: 1 finished pass, every sequence delivered exactly once" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")  # which torchdata asks for
def test_its_own_loader_refuses_another_data_parallel_degree() -> None:
    from torchtitan.components.dataloader import ParallelAwareDataloader

    def loader(dp_world_size: int) -> ParallelAwareDataloader:
        return ParallelAwareDataloader(torch.arange(64), dp_rank=0, dp_world_size=dp_world_size)

    state = loader(2).state_dict()
    loader(2).load_state_dict(state)
    with pytest.raises(AssertionError, match="dataloader resharding is not supported yet"):
        loader(1).load_state_dict(state)

"""No call of ours reads or moves the global random state of Python, numpy or torch (law 10)."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import fastresume as fr
from support.random_states import global_states
from support.strategies import Dataset


@pytest.mark.law(10)
def test_a_pass_and_a_resume_move_no_global_random_state(small_dataset: Dataset) -> None:
    before = global_states()
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10)
    with fr.Loader(dataset, threads=2) as loader:
        loader.start()
        loader.peek()
        batches = list(loader)
        loader.load_state_dict(batches[3].state_dict())
        next(iter(loader))
        loader.reset()
        list(dataset)
        loader.state_dict()
    assert global_states() == before


@pytest.mark.law(10)
def test_no_seed_changes_a_batch(small_dataset: Dataset) -> None:
    passes = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10)
        passes.append([batch.rows().tolist() for batch in dataset])
    assert passes[0] == passes[1]

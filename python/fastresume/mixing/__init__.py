"""Mixtures of datasets: which rows of which source make a batch, and how they are put together."""

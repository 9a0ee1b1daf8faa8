"""Mixtures of datasets: which rows, or units, of which source make a batch."""

"""Mixtures of datasets: which source's rows, or units, make a batch."""

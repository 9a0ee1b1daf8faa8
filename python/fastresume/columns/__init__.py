"""Columns as tensors: `fr.col(...)`, `fr.stack(...)`, and a list of them as the core takes it."""

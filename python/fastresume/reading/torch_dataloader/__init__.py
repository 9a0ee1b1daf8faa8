"""Datasets under torch's `DataLoader`: its workers, and the checks of who iterates."""

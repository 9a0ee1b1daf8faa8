"""From a `ReadSpec` to batches."""

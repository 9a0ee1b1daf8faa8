"""Reading: from a `ReadSpec` to batches."""

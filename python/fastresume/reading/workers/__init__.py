"""The worker processes of a `Loader`."""

"""A batch, its schema, and where it comes from."""

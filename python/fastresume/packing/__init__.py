"""Units of several rows, or of parts of them: packed sequences, and bins by cost."""

"""Tables: what a snapshot of a Delta table tells of its files."""

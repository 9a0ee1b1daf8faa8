"""Tables: what a snapshot of a Delta or Iceberg table tells of its files."""

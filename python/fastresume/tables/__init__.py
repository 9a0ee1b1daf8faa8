"""Tables: what a snapshot of a Delta or Iceberg table says about its files."""

"""What tests share: the oracle, files and jobs that are made for them, processes, faults."""

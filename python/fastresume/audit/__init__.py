"""The delivery log, and the proof that each row was delivered exactly once."""

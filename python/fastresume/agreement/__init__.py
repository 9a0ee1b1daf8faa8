"""Ranks that must agree on what they read."""

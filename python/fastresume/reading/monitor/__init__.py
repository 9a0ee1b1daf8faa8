"""Monitoring of a reader: statistics, progress, a watchdog."""

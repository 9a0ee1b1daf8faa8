"""What a reader tells those who watch: statistics, progress, a watchdog."""

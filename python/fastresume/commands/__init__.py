"""What the command line tells of files and states."""

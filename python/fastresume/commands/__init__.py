"""What the command line shows of files and states."""

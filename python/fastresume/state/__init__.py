"""The cursor as a value, and as torch's workers share it."""

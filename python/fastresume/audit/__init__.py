"""The log of what was delivered, and its proof."""

"""Models compared on the items that their rows keep."""

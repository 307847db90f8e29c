"""Boards: the files that results are written to, and the tables that people read."""

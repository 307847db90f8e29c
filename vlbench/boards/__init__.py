"""Boards: files, schema, privacy, merging, and the items behind their scores."""

from vlbench.boards.board import Board

__all__ = ["Board"]

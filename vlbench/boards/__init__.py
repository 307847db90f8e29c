"""Boards: files, schema, privacy, merging, and the items behind their scores."""

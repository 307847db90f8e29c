"""Folders of boards joined into one."""

"""Loaders, one file a source: functions that return Data."""

"""Loaders, one module per source: functions that return Data."""

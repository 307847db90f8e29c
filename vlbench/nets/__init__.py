"""Small networks that probes train."""

"""Probes of the captions that a matching model prefers. arXiv:2210.09550."""

"""Probes of Does language help generalization in vision models? (arXiv:2104.08313)."""

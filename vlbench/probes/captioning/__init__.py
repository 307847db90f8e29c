"""What captions does a matching model like? arXiv:2210.09550 and its probes of captions."""

"""Probes of matching: choices between texts and between images, and retrieval."""

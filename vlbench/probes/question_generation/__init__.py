"""Probes of visual question generation."""

"""Formulas that several probes share."""

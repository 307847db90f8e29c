"""Formulas that two probes share."""

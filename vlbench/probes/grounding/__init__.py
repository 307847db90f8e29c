"""Probes of attention heads: queries of words, attention, scores and pictures."""

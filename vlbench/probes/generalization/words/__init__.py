"""Vectors of words: of classes, around what a model sees, and learnt from a corpus."""

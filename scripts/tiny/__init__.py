"""The small models of vlbench's own world: one file for each kind, what all share beside them.

A kind is a `Model`, listed in scripts/train_tiny.py: how to train it into a folder that its adapter
reads, and what is measured of it there on rows it has not seen.
"""

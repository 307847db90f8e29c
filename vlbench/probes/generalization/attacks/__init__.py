"""Attacks on classifiers: the descent, the classifier under attack, and runs batch by batch."""

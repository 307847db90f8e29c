"""Probes of matching: finding the text of an image, and the image of a text."""

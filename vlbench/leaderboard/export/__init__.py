"""Boards in other people's formats, one module each.

Only complete ok rows of trained models are exported; the others are listed with the reason.
"""

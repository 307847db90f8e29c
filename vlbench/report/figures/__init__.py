"""Figures made from boards: charts of scores, similar models, and what tasks name."""

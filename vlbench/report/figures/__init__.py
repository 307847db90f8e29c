"""Figures made from boards: charts of scores, similarities of models, and figures of tasks."""

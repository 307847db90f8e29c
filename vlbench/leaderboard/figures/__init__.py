"""Figures made from boards: charts, their panels and layout, and how each model looks."""

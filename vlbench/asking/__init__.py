"""Asking a model to choose: from rows to candidates, and from candidates to choices."""

"""Small networks that a probe trains."""

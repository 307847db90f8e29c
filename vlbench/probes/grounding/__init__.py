"""How attention heads are judged: what is asked of them, what they see, and what is told of it."""

"""One file a probe: a function that asks a model for something and scores it."""

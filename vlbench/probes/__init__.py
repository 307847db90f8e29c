"""One folder per family of probes; a probe is a function that tests a model and scores it."""

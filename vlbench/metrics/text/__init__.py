"""Words of captions and the metrics that are Java programs."""

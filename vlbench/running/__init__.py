"""A job done: models loaded and freed, one job run, its row made."""

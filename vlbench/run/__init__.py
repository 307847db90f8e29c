"""A run: resolves tasks and models, decides and runs jobs, and makes their rows."""

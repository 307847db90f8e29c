"""A run: tasks and models resolved, jobs decided and run, and their rows made."""

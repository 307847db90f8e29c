"""What attacks are made of: the descent, what it is made on, and how its batches are run."""

"""What adapters of models that generate need: chat prompts, and batches of their tokens."""

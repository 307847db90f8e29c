"""Generative models prompted about an image: chat prompts, batches, positions of image tokens."""

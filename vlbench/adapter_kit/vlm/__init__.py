"""Models that generate, asked about an image: chat prompts, batches, and where image tokens lie."""

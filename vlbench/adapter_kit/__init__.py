"""What several adapters need: opening models, weights files, texts, regions, images."""

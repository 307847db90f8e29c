"""Word vectors: of class names, of visual words, trained on a corpus, and their evaluation."""

"""Probes of word vectors by visual semantic embeddings. arXiv:2107.12021."""

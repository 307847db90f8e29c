"""What the three probes of word vectors share: objects with names, and choices among them."""

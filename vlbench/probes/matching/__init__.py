"""Does a model bind words to what it sees? Choices of texts and images, and retrieval."""

"""Task files and model lines of every source, read without importing what they name."""

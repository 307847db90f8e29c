"""Task files and model entries of every source, read without importing the code they name."""

"""The page: all boards of a folder in one HTML file that needs no server and no network."""

"""The page: all boards of a folder as one file of HTML that needs no server and no network."""

"""What the command line shows: its parser, listings, validation, progress and reports."""

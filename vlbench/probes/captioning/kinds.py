"""What scores of captions are of: the kinds of captions, and the match."""

# Captions: of the captioner after and before it is rewarded, and the first reference.
FAVOURITES, BEFORE, REFERENCE = "favourites", "ce", "reference"
KINDS = (FAVOURITES, BEFORE, REFERENCE)

# The metric of what a model's scores of captions with their images are.
MATCH = "match_score"

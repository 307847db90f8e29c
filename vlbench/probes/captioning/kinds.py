"""Names of kinds of captions, and of the matching score."""

# Captions of the captioner after and before the reward, and the first reference.
FAVOURITES, BEFORE, REFERENCE = "favourites", "ce", "reference"
KINDS = (FAVOURITES, BEFORE, REFERENCE)

# The metric of a model's scores of captions with their images.
MATCH = "match_score"

"""Exceptions to a list of names: words that mean something else next to certain other words."""

# Two words that name another category than either word alone; "": no category.
COMPOUNDS = {
    "bean bag": "",
    "box car": "",
    "bull frog": "",
    "cable car": "",
    "computer mouse": "mouse",
    "donald duck": "",
    "flower bed": "",
    "home plate": "",
    "hot plate": "",
    "jet ski": "",
    "license plate": "",
    "mickey mouse": "",
    "minnie mouse": "",
    "name plate": "",
    "pick up": "",
    "rail car": "",
    "rubber duck": "",
    "shipping container": "",
    "soccer ball": "sports ball",
    "street car": "",
    "stuffed bear": "",
    "toilet bowl": "toilet",
    "toilet seat": "toilet",
    "train car": "train",
    "truck bed": "truck",
    "trolley car": "",
}

# Nouns that a name before them only modifies: `bus station` is not a bus.
_HEADS = (
    *("booth", "cap", "case", "club", "collar", "court", "dealership", "depot", "desk", "diamond"),
    *("dish", "dock", "driver", "enclosure", "equipment", "exhibit", "feeder", "field", "game"),
    *("hangar", "hat", "house", "hut", "jersey", "lane", "lodge", "lot", "outfit", "pie"),
    *("platform", "player", "resort", "room", "shelf", "shop", "slope", "station", "store", "suit"),
    *("team", "terminal", "tournament", "track", "uniform", "yard"),
)
# The last row has words that are also verbs; only their singular is listed: `a bus stops` is a bus.
HEADS = frozenset(
    (
        *_HEADS,
        *(f"{head}s" for head in _HEADS),
        *("food", "gear", "juice", "paper", "tennis", "practice"),
        *("lift", "match", "park", "race", "show", "stop"),
    )
)

ANIMALS = frozenset(
    (
        *("animal", "bear", "bird", "calf", "cat", "cow", "cub", "deer", "dog", "duck", "elephant"),
        *("giraffe", "goat", "horse", "lamb", "lion", "panda", "sheep", "zebra"),
    )
)
PLACES = frozenset(("area", "beach", "field", "island", "location", "place", "road"))

# Nouns, beside HEADS, that a given word only modifies when it stands before them.
KINDS_OF = {
    **dict.fromkeys(("adult", "baby", "father", "female", "male", "mother"), ANIMALS),
    "baby": ANIMALS | {"carriage", "stroller"},
    "passenger": frozenset(("boat", "bus", "car", "ferry", "jet", "plane", "train", "vehicle")),
    "pitcher": frozenset(("of",)),
    "remote": PLACES,
    "turkey": frozenset(("burger", "sandwich", "sub")),
}

# Words that name a thing only after an article and before no noun: a colour, and sports.
ARTICLED = frozenset(
    ("baseball", "basketball", "football", "orange", "racquetball", "soccer", "softball")
) | {"volleyball"}
ARTICLES = frozenset(("a", "an", "another", "her", "his", "one", "the", "their", "this"))

COLOURS = frozenset(
    ("black", "blue", "brown", "gold", "gray", "green", "grey", "pink", "purple", "red", "silver")
) | {"tan", "white", "yellow"}

# Nouns before which `orange` means the fruit.
FRUIT = frozenset(("half", "halves", "peel", "peels", "segments", "slice", "slices", "wedges"))

# Words that follow a noun phrase but do not belong to it.
OPEN = frozenset(
    (
        *("about", "across", "after", "and", "are", "around", "as", "at", "before", "behind"),
        *("being", "beside", "between", "by", "during", "flying", "for", "from", "hanging", "has"),
        *("in", "inside", "into", "is", "laying", "lies", "lying", "near", "next", "of", "off"),
        *("on", "onto", "or", "out", "over", "resting", "sits", "sitting", "that", "through", "to"),
        *("toward", "towards", "under", "up", "was", "were", "which", "while", "with"),
    )
)

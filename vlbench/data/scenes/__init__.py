"""A little world that vlbench draws itself: images whose every truth is known."""

from vlbench.data.scenes.loaders import objects, scenes
from vlbench.data.scenes.sheet import contact_sheet
from vlbench.data.scenes.world import HELD_OUT, HIERARCHY, REGION_KIND, VERSION

__all__ = ["HELD_OUT", "HIERARCHY", "REGION_KIND", "VERSION", "contact_sheet", "objects", "scenes"]

"""Flickr30k Entities. Plummer et al. 2015, arXiv:1505.04870."""

from vlbench.data.flickr30k.loader import flickr30k

__all__ = ["flickr30k"]

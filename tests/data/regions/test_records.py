import torch

from vlbench.data.regions.records import StoredRegions


def test_regions_are_in_pixels_and_without_scores_unless_a_file_says_more():
    regions = StoredRegions("features.tsv, line 1", torch.zeros(1, 4), torch.zeros(1, 3))
    assert (regions.size, regions.scores, regions.objects, regions.labels) == (None,) * 4
    assert not regions.is_relative

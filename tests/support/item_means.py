"""What holds of the items of every probe: their mean is the score that they are behind."""

import json
from statistics import fmean


def item_means(items):
    """Return the mean credit of items, over trials of items, by metric and conditions."""
    trials = {}
    for row in items.to_pylist():
        place = row["metric"], *sorted(json.loads(row["at"]).items())
        trials.setdefault(place, {}).setdefault(row["trial"], []).append(row["credit"])
    return {place: fmean(map(fmean, found.values())) for place, found in trials.items()}


def scores_with_items(scores, items):
    """Return the values of the scores that have items, by metric and conditions."""
    values = {(s.metric, *sorted(s.at.items())): s.value for s in scores}
    return {place: values[place] for place in item_means(items)}


def of_means(items):
    """Return the items of scores that are means, which have no statistics of a corpus."""
    there = "statistics" in items.column_names
    return items.filter(items["statistics"].is_null()) if there else items


def told(score):
    """Return a score in words, beside its chance."""
    return f"{score.metric} {dict(score.at)}: {score.value} +- {score.stderr}, not {score.chance}"

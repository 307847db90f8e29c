"""What of a figure is seen, by matplotlib's own measure."""


def beyond(figure):
    """Return how many inches a figure's texts, axes and legends reach beyond each of its sides."""
    figure.draw_without_rendering()
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    sides = (-box.x0, -box.y0, box.x1 - width, box.y1 - height)
    return [max(0.0, round(side, 2)) for side in sides]


def overlapping(figure):
    """Return how many pairs of a drawn figure's panels, each with its texts, cover each other."""
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    return sum(box.count_overlaps(boxes[i + 1 :]) for i, box in enumerate(boxes))

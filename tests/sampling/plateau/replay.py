"""Where projections that end on a plateau start, from the losses of a whole run."""


def starts_by_replay(losses, stretch, patience, longest, lag):
    """The first steps of all projections, from the losses of the whole run."""
    starts = [0]
    while starts[-1] < len(losses):
        start, end = starts[-1], starts[-1] + longest
        means = [
            sum(losses[first : first + stretch]) / stretch
            for first in range(start, len(losses) - stretch + 1, stretch)
        ]
        for number in range(patience, len(means)):
            recent = means[number - patience + 1 : number + 1]
            if min(recent) >= min(means[: number - patience + 1]):
                end = min(end, start + (number + 1) * stretch - 1 + lag)
                break
        starts.append(end)
    return starts[:-1]

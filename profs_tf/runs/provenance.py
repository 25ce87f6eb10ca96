"""Origin and license of the weights that a run starts from, as a line of text."""

from profs_tf import backbones
from profs_tf.config import Config


def origin_of(config: Config, of_initial_run: str = "") -> str:
    """Returns the line.

    Args:
        config: Of the run.
        of_initial_run: The line of its `initial_run`: the license of those weights applies to this run's.
    """
    if config.initial_run is not None:
        own = f", whose own were {of_initial_run}" if of_initial_run else ""
        return f"of the best epoch of the run {config.initial_run}{own}"
    try:
        backbone = backbones.get(config.backbone)
    except ValueError:
        return f"unknown: {config.backbone} is neither a backbone of this version nor a Keras model here"
    if backbone.own_weights:
        return backbone.own_weights
    if config.pretrained_weights is None:
        return f"random (seed {config.seed})"
    if backbone.published is None:
        return f"unknown: read from {config.pretrained}, but no weights of {backbone.name} are published"
    return (
        f"read from {config.pretrained}. The published ones: {backbone.published.origin}; "
        f"{backbone.published.license}. Check where your file is from."
    )


def check_initial_weights(config: Config) -> None:
    """Raises ValueError if a run that needs pretrained weights would start from random ones."""
    if not config.require_pretrained or config.pretrained is not None or config.initial_run is not None:
        return
    backbone = backbones.get(config.backbone)
    if backbone.own_weights:
        return
    published = backbone.published
    source = f"FILE, {published.file_format}, published at {published.url}" if published else "FILE"
    raise ValueError(
        f"`pretrained` must be given, since these settings need a pretrained {backbone.name}: pass "
        f"--pretrained={source}; or --pretrained=none for random weights, which give other results."
    )

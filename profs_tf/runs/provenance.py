"""Where the weights come from that a run starts from: the file, its origin and license."""

from __future__ import annotations

import dataclasses
import glob
import os
from typing import Optional

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


def with_weights_file(config: Config) -> Config:
    """Returns the configuration with `pretrained` as a path, found in `weights_dir` if that is given.

    Raises:
        ValueError: If a run that needs pretrained weights would start from random ones, or the backbone has
            no published weights to search for.
        FileNotFoundError: If the file is not found; the message says where it was looked for and published.
    """
    if config.initial_run is not None or config.pretrained == "none":
        return config
    backbone = backbones.get(config.backbone)
    if config.weights_dir is None:
        if config.require_pretrained and config.pretrained is None and not backbone.own_weights:
            raise ValueError(
                f"`pretrained` must be given, since these settings need a pretrained {backbone.name}: pass "
                f"--pretrained={_source(backbone)}; or --pretrained=none for random weights, which give "
                "other results. --weights_dir=FOLDER finds the file by its name."
            )
        return config
    if backbone.published is None:
        raise ValueError(
            f"`weights_dir` must be left out for {backbone.name}, which has no published weights, got "
            f"{config.weights_dir}."
        )
    return dataclasses.replace(config, pretrained=_find(config.weights_dir, config.pretrained, backbone))


def _find(folder: str, pretrained: Optional[str], backbone: backbones.Backbone) -> str:
    assert backbone.published is not None
    folder = os.path.expanduser(folder)
    if pretrained is not None:
        if pretrained == "imagenet" or _is_there(pretrained):
            return pretrained
        names: tuple[str, ...] = (pretrained,)
    else:
        # What tools/convert_weights.py writes is by convention named by the backbone.
        names = (*backbone.published.files, f"{backbone.name}.h5")
    paths = [os.path.join(folder, name) for name in names]
    found = next((path for path in paths if _is_there(path)), None)
    if found is None:
        raise FileNotFoundError(
            f"`weights_dir` must hold weights of {backbone.name}, but there is no {' and no '.join(paths)}. "
            f"{backbone.name} takes {backbone.published}. Download it into the folder, or pass "
            "--pretrained=none for random weights."
        )
    return found


def _is_there(path: str) -> bool:
    """Returns whether there is a file, or a TensorFlow checkpoint whose prefix it is."""
    path = os.path.expanduser(path)
    return os.path.isfile(path) or bool(glob.glob(f"{glob.escape(path)}.index"))


def _source(backbone: backbones.Backbone) -> str:
    return "FILE" if backbone.published is None else f"FILE, {backbone.published}"

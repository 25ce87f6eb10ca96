"""Where the weights come from with which a run begins, and under what licence they stand: a line of text."""

from profs_tf.config import Config

_SLIM = "TF-Slim's checkpoint, trained on ImageNet; its repository is under the Apache License 2.0"
# Under what the published weights of a backbone stand, as their publishers say.
_PUBLISHED = {
    "inception_v1": _SLIM,
    "inception_v2": _SLIM,
    "bn_inception": "Caffe's BN-Inception as a PyTorch state dict, trained on ImageNet; "
    "no licence comes with the file",
    "googlenet": "Caffe's model zoo, BVLC GoogLeNet, trained on ImageNet; released for unrestricted use",
    "resnet50": "keras.applications, trained on ImageNet; the authors' release is under the MIT License",
}


def origin_of(config: Config, of_initial_run: str = "") -> str:
    """Returns the line.

    Args:
        config: of the run.
        of_initial_run: the line of its `initial_run`: what licence the weights have is inherited.
    """
    if config.initial_run is not None:
        own = f", whose own were {of_initial_run}" if of_initial_run else ""
        return f"of the best epoch of the run {config.initial_run}{own}"
    brings_weights = config.backbone not in _PUBLISHED and config.backbone != "conv4"
    if config.pretrained is None and not brings_weights:
        return f"random (seed {config.seed})"
    if config.backbone.startswith("keras_cv:"):
        return "the KerasCV preset's, where it has any; its page names data and licence"
    if brings_weights:
        return f"those of {config.backbone}, under the licence of whoever trained it"
    published = _PUBLISHED.get(config.backbone, "")
    return f"read from {config.pretrained}. The published ones: {published}. Check where your file is from."

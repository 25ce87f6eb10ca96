"""What the registry knows about a backbone, and what the networks of this package share.

Shapes: B images, H x W their height and width in pixels.

A network's own file holds the function that builds it, decorated with its properties:

    @backbone(min_size=16)
    def conv4(input_shape, pretrained, batch_norm_momentum, seed):
        images, x = rescaled_input(input_shape)
        ...
        return finalize(images, x, "conv4", seed)
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Callable, Optional, Union

import tensorflow as tf

from profs_tf.backbones.seeding import seed_kernels
from profs_tf.backbones.weights.archive import is_archive, load_archive
from profs_tf.backbones.weights.assign import check_finite
from profs_tf.utils.errors import first_line

# Share of the old value that moving statistics keep at a training step: they start from 0 and 1, and a
# network from scratch could not be evaluated for long with the 0.99 and more that pretrained ones have.
MOMENTUM_FROM_SCRATCH = 0.9

InputShape = tuple[Optional[int], Optional[int], int]


@dataclass(frozen=True)
class PublishedWeights:
    """Weights of a network that its authors or others offer for download.

    Attributes:
        origin: Who published them and what they were trained on.
        license: The terms of use, as the publisher states them.
        file_format: What ``pretrained`` reads: a noun phrase that follows "must be".
        url: Where the file can be downloaded.
        files: Names of the file that ``pretrained`` reads, for a search in a folder.
        checksum: What the publisher states to check the download by; "" if nothing.
    """

    origin: str
    license: str
    file_format: str
    url: str
    files: tuple[str, ...] = ()
    checksum: str = ""

    def __str__(self) -> str:
        """Returns the file that ``pretrained`` reads and where to get it, as part of a sentence."""
        checksum = f" ({self.checksum})" if self.checksum else ""
        return f"{self.file_format}, published at {self.url}{checksum}"


@dataclass(frozen=True)
class Backbone:
    """A network from images to a feature map, and its properties. Calling it builds the network.

    Attributes:
        name: What `profs_tf.backbones.get` and ``--backbone`` take.
        build: ``build(input_shape, pretrained, batch_norm_momentum, seed)`` returns the model.
        min_size: Smallest height and width of an image in pixels.
        published: The weights that ``pretrained`` reads; None if none are published.
        own_weights: Origin and license of the weights that the network comes with; "" if its weights are
            random unless ``pretrained`` is given.
        brings_weights: Whether the network comes with trained weights; may take seconds.
        load: Loads a network made elsewhere, whose image size only the network itself tells.
    """

    name: str
    build: Callable[..., tf.keras.Model]
    min_size: int = 1
    published: Optional[PublishedWeights] = None
    own_weights: str = ""
    brings_weights: Callable[[], bool] = lambda: False
    load: Optional[Callable[[], tf.keras.Model]] = None

    def __call__(
        self,
        input_shape: InputShape = (None, None, 3),
        *,
        pretrained: Optional[str] = None,
        batch_norm_momentum: Optional[float] = None,
        seed: Optional[int] = None,
    ) -> tf.keras.Model:
        """Builds the network.

        Args:
            input_shape: (height, width, 3); height and width may be None, otherwise at least `min_size`.
            pretrained: Published weights to start from, as `published.file_format` says.
            batch_norm_momentum: Share of the old value that the moving statistics keep at each training step;
                None leaves the choice to the network.
            seed: Makes the initial weights a pure function of this whole number; None draws them from Keras's
                global generator.

        Returns:
            A model from images, float32 [B, H, W, 3] with values 0..255, to the feature map before global
            pooling.

        Raises:
            ValueError: If the images are too small or not RGB, ``pretrained`` does not hold exactly the
                weights of this network, a loaded weight is not finite, or an option does not apply to this
                network.
        """
        height, width, channels = input_shape
        if channels != 3 or any(side is not None and side < self.min_size for side in (height, width)):
            raise ValueError(
                f"`input_shape` must be (height, width, 3) of at least {self.min_size} pixels for "
                f"{self.name}, got {input_shape}."
            )
        if pretrained is not None and self.published is None and not self.own_weights:
            raise ValueError(
                f"`pretrained` must be None for {self.name}, which has no published weights, got "
                f"{pretrained!r}."
            )
        try:
            network = self.build(input_shape, pretrained, batch_norm_momentum, seed)
        except ValueError as error:
            if pretrained is None or self.published is None or glob.glob(f"{glob.escape(str(pretrained))}*"):
                raise
            raise ValueError(
                f"{str(error).rstrip('.')}. {self.name} takes {self.published}: "
                "download it and pass --pretrained=FILE."
            ) from error
        if pretrained is not None or self.own_weights:
            check_finite(network, *(("pretrained", pretrained) if pretrained else ("backbone", self.name)))
        return network

    @cached_property
    def fixed_size(self) -> Optional[int]:
        """The one side in pixels of the square images that the network takes; None if it takes several.

        Raises:
            ValueError: If the network takes one size only, and that is not square.
        """
        if self._loaded is None:
            return None
        height, width = self._loaded.inputs[0].shape[1:3]
        if None not in (height, width) and height != width:
            raise ValueError(
                f"`backbone` must take square images, got {self.name} for {height} x {width} pixels. Save it "
                "with square inputs, or inputs of any size."
            )
        return height or width

    def is_pretrained(self, pretrained: Optional[str]) -> bool:
        """Returns whether the network starts from trained weights, given or its own."""
        return pretrained is not None or self.brings_weights()

    def check_image_size(self, size: int) -> None:
        """Raises ValueError unless the network takes images of ``size`` x ``size`` pixels."""
        if self.fixed_size not in (None, size):
            rule = f"be {self.fixed_size} pixels"
        elif size < self.min_size:
            rule = f"be >= {self.min_size} pixels"
        elif problem := self._problem_with(size):
            rule = f"be a size that the network can take ({problem})"
        else:
            return
        raise ValueError(
            f"`image_crop` must {rule} for the backbone {self.name}, got {size}. Set --image_resize and "
            "--image_crop to fit."
        )

    @cached_property
    def _loaded(self) -> Optional[tf.keras.Model]:
        return None if self.load is None else self.load()

    def _problem_with(self, size: int) -> str:
        if self._loaded is None:
            return ""
        try:
            shape = self._loaded.compute_output_shape((1, size, size, 3))
        except NotImplementedError:  # A layer that does not tell its output shape ahead.
            return ""
        except (ValueError, TypeError, tf.errors.OpError) as error:
            return first_line(error)
        return (
            "" if all(tf.TensorShape(shape).as_list()) else f"its output would have the shape {tuple(shape)}"
        )


def backbone(
    *, min_size: int = 1, published: Optional[PublishedWeights] = None
) -> Callable[[Callable[..., tf.keras.Model]], Backbone]:
    """Decorates the function that builds a network: makes a `Backbone` of it, with the function's name."""
    return lambda build: Backbone(build.__name__, build, min_size, published)


def rescaled_input(input_shape: InputShape) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the input, [B, H, W, 3] with values 0..255, and the same scaled to -1..1."""
    return scaled_input(input_shape, 1 / 127.5, -1.0)


def centered_input(
    input_shape: InputShape, mean_rgb: tuple[float, float, float]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the input, [B, H, W, 3] with values 0..255, and the same less ``mean_rgb``."""
    return scaled_input(input_shape, 1.0, [-mean for mean in mean_rgb])


def scaled_input(
    input_shape: InputShape, scale: float, offset: Union[float, Sequence[float]]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the input, [B, H, W, 3] with values 0..255, and the same times ``scale`` plus ``offset``."""
    images = tf.keras.Input(input_shape, name="images")
    # In half precision neighboring gray levels would coincide.
    rescale = tf.keras.layers.Rescaling(scale, offset=offset, dtype="float32", name="rescale")
    return images, rescale(images)


def finalize(
    images: tf.Tensor,
    features: tf.Tensor,
    name: str,
    seed: Optional[int],
    pretrained: Optional[str] = None,
    load_published: Optional[Callable[[tf.keras.Model, str], None]] = None,
) -> tf.keras.Model:
    """Returns the model from ``images`` to ``features`` with its initial or its pretrained weights.

    Args:
        images: The input.
        features: The feature map.
        name: Of the model.
        seed: Makes the initial weights a pure function of this whole number; None leaves them as they are.
        pretrained: Path of published weights, or of an archive of `profs_tf.backbones.weights.archive`; None
            for random weights.
        load_published: Assigns the weights of a published file to a model.

    Raises:
        ValueError: If ``pretrained`` does not hold exactly the model's weights.
    """
    model = tf.keras.Model(images, features, name=name)
    if seed is not None:
        seed_kernels(model, seed)
    if pretrained is not None and load_published is not None:
        load = load_archive if is_archive(pretrained) else load_published
        load(model, pretrained)
    return model

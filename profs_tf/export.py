"""The export command: `python -m profs_tf.export --run_dir=runs/emoji --output=embedder`."""

import dataclasses
import functools
from typing import Any

import tensorflow as tf
from absl import flags

from profs_tf.cli.command import run
from profs_tf.cli.config_flags import loss_options
from profs_tf.cli.flag_types import check_values, define_flag
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import (
    build_best_embedder,
    build_preprocessing,
    build_sampler,
    hold_out_for_projections,
    load_data,
)
from profs_tf.runs.log import metrics_of_run
from profs_tf.serving.formats import CARD, FORMATS, SAVED_MODEL, check_formats, export_embedder, sample_of
from profs_tf.serving.hub_metadata import OTHER_LICENSE
from profs_tf.serving.model_card import Trained, model_card
from profs_tf.utils.files import check_no_pattern, expanded

USAGE = """export: write the embedder of a run's best epoch for use elsewhere, with a model card.

  python -m profs_tf.export --run_dir=runs/emoji --output=emoji_embedder
  python -m profs_tf.export --run_dir=runs/emoji --output=emoji_embedder --formats=saved_model,tflite,onnx

The train command writes a SavedModel at its end; use this one for runs that are still training or were
stopped, and for other formats. All hold the evaluation's scaling and cropping, and give embeddings, float32
[N, D]. Each is compared with the Keras model on pictures of the test split; one that differs is not written.
The model card, README.md, opens with what the Hugging Face Hub reads: the folder can be uploaded as it is.

  saved_model      the folder itself; needs nothing but TensorFlow and has three signatures:
                     serving_default   images, float32 [N, H, W, 3], RGB with values 0 to 255
                     uint8_images      images, the same as uint8
                     encoded_images    images, string [N]: the bytes of JPEG, PNG, GIF or BMP files
  tflite           embedder.tflite: images, float32 [N, H, W, 3] as above
  tflite_float16   embedder_float16.tflite: the same at half the size, its weights in half precision
  onnx             embedder.onnx: the same for ONNX runtimes (pip install 'profs_tf[onnx]')"""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    define_flag(values, "run_dir", str, "", "Folder of the run: the --output_dir of train.")
    define_flag(values, "output", str, "", "Folder to write; it must not exist.")
    define_flag(values, "formats", tuple, (SAVED_MODEL,), f"What to write: {', '.join(FORMATS)}.")
    text = "License of the embedder, in the spelling of the Hugging Face Hub: mit, apache-2.0, cc-by-4.0, ..."
    define_flag(values, "license", str, OTHER_LICENSE, text)


def main(values: flags.FlagValues) -> None:
    """Writes the embedder and its model card."""
    for name in ("run_dir", "output"):
        if not values[name].value:
            raise ValueError(f"`{name}` must name a folder. Pass --{name}=FOLDER.")
    check_values(values, least={}, folders=("output",))
    check_no_pattern("output", values.output)
    output = expanded(values.output)
    if output.exists():
        raise FileExistsError(f"`output` must not exist, got {output}. Choose another folder.")
    formats = tuple(dict.fromkeys(values.formats))
    check_formats(formats)
    folder = evaluated_run(values.run_dir)
    config = folder.read_config()
    train_images, test_images = load_data(config)
    train_images, _ = hold_out_for_projections(config, train_images)
    preprocessing = build_preprocessing(config, train_images)
    embedder = build_best_embedder(config, folder.best_weights)
    float32_config = dataclasses.replace(config, precision="float32")
    differences = export_embedder(
        output,
        formats,
        embedder,
        preprocessing,
        sample_of(test_images, preprocessing),
        functools.partial(
            model_card,
            config,
            preprocessing,
            trained=describe_run(folder, config, train_images, test_images, embedder),
            license_id=values.license,
        ),
        portable_embedder=embedder
        if config == float32_config
        else build_best_embedder(float32_config, folder.best_weights),
    )
    for name, difference in differences.items():
        print(f"{name}: {output / FORMATS[name].file} (differs by {difference:.1e})")
    print(f"Model card: {output / CARD}")


def evaluated_run(path: str) -> RunFolder:
    """Returns the folder of a run; raises FileNotFoundError unless it has a best epoch."""
    folder = RunFolder(path, argument="run_dir")
    if not folder.config.exists():
        raise FileNotFoundError(
            f"`run_dir` must be the folder of a run of the train command, but there is no {folder.config}."
        )
    if not folder.best_weights.with_suffix(".index").exists():
        raise FileNotFoundError(f"`run_dir` must hold an evaluated epoch, {folder.path} has none yet.")
    return folder


def describe_run(
    folder: RunFolder,
    config: Config,
    train_images: ImageList,
    test_images: ImageList,
    embedder: tf.keras.Model,
) -> Trained:
    """Returns what the model card says of a run besides its configuration."""
    return Trained(
        train_images,
        test_images,
        build_sampler(config, train_images).steps_per_projection,
        loss_options=loss_options_of(config),
        normalized="normalize" in (layer.name for layer in embedder.layers),
        num_weights=embedder.count_params(),
        metrics=metrics_of_run(folder, config.ks),
        origin=folder.read_origin(),
    )


def loss_options_of(config: Config) -> dict[str, Any]:
    """Returns all options of the loss that a user chooses, given or by default."""
    options = loss_options(config.loss).items()
    return {name: config.loss_options.get(name, option.default) for name, option in options}


if __name__ == "__main__":
    run(main, define_flags, USAGE)

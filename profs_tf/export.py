"""The export command: `python -m profs_tf.export --run_dir=runs/emoji --output=embedder`."""

from pathlib import Path

from absl import flags

from profs_tf.building import build_model, build_preprocessing, load_data
from profs_tf.command_line import run
from profs_tf.config_flags import define_one
from profs_tf.run_folder import RunFolder
from profs_tf.serving import save_embedder

USAGE = """export: write the embedder of a run's best epoch as a SavedModel.

  python -m profs_tf.export --run_dir=runs/emoji --output=emoji_embedder

The train command does this at its end; this one serves for runs that are still going on, or were stopped.
The SavedModel needs nothing but TensorFlow and has three signatures:

  serving_default   images, float32 [B, H, W, 3], RGB with values 0 to 255
  uint8_images      images, the same as uint8
  encoded_images    images, string [B]: the bytes of JPEG, PNG, GIF or BMP files

each with the output embeddings, float32 [B, D], and the evaluation's scaling and cropping inside."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    define_one(values, "run_dir", str, "", "Folder of the run: the --output_dir of train.")
    define_one(values, "output", str, "", "Folder to write; it must not exist.")


def main(values: flags.FlagValues) -> None:
    """Exports by the flags."""
    for name in ("run_dir", "output"):
        if not values[name].value:
            raise ValueError(f"`{name}` must name a folder. Pass --{name}=FOLDER.")
    if Path(values.output).exists():
        raise FileExistsError(f"`output` must not exist, got {values.output}. Choose another folder.")
    folder = RunFolder(values.run_dir)
    config = folder.read_config()
    if not folder.best_weights.with_suffix(".index").exists():
        raise FileNotFoundError(f"`run_dir` must hold an evaluated epoch, {folder.path} has none yet.")
    train_images, _ = load_data(config)
    model = build_model(config, train_images.num_classes)
    model.embedder.load_weights(str(folder.best_weights)).expect_partial()
    save_embedder(model.embedder, build_preprocessing(config, train_images), values.output)
    print(f"Embedder: {values.output}")


if __name__ == "__main__":
    run(main, define_flags, USAGE)

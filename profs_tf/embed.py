"""The embed command: `python -m profs_tf.embed --embedder=runs/mine/embedder --images=all --output=out`."""

import sys
import time
from pathlib import Path
from typing import Any

from absl import flags

from profs_tf.cli import data_flags
from profs_tf.cli.command import run
from profs_tf.cli.exit_codes import InterruptedRunError
from profs_tf.cli.flag_types import check_values, define_flag, read_lines
from profs_tf.search.source import IndexSource, source_of
from profs_tf.shards.dtypes import DTYPES
from profs_tf.shards.formats import FORMATS
from profs_tf.shards.pictures import listed_pictures, pictures_in
from profs_tf.shards.writer import ShardOptions, write_shards
from profs_tf.utils.files import expanded

USAGE = """embed: write the embeddings of many pictures to files, for a vector database, Spark or faiss.

  python -m profs_tf.embed --embedder=runs/mine/embedder --images=/path/to/pictures --output=embeddings
  python -m profs_tf.embed --embedder=runs/mine/embedder --images=pictures.csv --output=out --format=parquet
  find /photos -name '*.jpg' | python -m profs_tf.embed --embedder=e --images=- --output=out --processes=2
  python -m profs_tf.embed --embedder=runs/emoji/embedder --dataset=emoji --output=out --dtype=int8

--images names a folder (label: the sub-folder that a picture lies in), a .csv file with the columns path
and label, a text file with a path a line, or - for such lines on standard input. Without it the pictures
are those of the data set and split of the embedder's run, unless flags say otherwise.

Each shard holds name, label, SHA-256 of the picture's file, and embedding: part-00000.parquet, or
part-00000.npy beside part-00000.csv. _manifest.json names the embedder by its hash, the options, and each
shard's SHA-256. Shards are written one by one: after Ctrl-C or a kill the same command continues, and gives
the same bytes. A changed picture is embedded again with its shard; another embedder, list or option is
refused.

int8 is embedding = scale * code, with one scale for all, in the manifest: Euclidean distances of codes are
proportional to those of embeddings. Where pictures have labels, Recall@1 of float32 is printed beside that
of the stored type."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    most_needed = "Most needed"
    define_flag(values, "embedder", str, None, "Folder of the SavedModel.", group=most_needed)
    text = "Folder, .csv file or text file of the pictures; - for paths on standard input."
    define_flag(values, "images", str, None, text, group=most_needed)
    define_flag(values, "output", str, None, "Folder of the shards.", group=most_needed)
    data_flags.define_with_split(values)
    for name, kind, default, text, choices, group in (
        ("format", str, "npy", "Files of a shard. parquet is an extra to install.", tuple(FORMATS), "Files"),
        ("dtype", str, "float32", "Numbers of the stored embeddings.", DTYPES, "Files"),
        ("shard_size", int, 4096, "Pictures of a shard. A kill loses the shards in work.", (), "Files"),
        ("overwrite", bool, False, "Whether to replace shards of another run.", (), "Files"),
        ("batch_size", int, 128, "Images embedded at once.", (), "Work"),
        ("processes", int, 1, "Processes that embed, each with the model in memory.", (), "Work"),
        ("skip_unreadable", bool, False, "Whether to leave out unreadable pictures.", (), "Work"),
        (
            "recall_sample",
            int,
            20_000,
            "Images, at most, that Recall@1 is measured on, of whole classes; 0: it is not measured.",
            (),
            "Work",
        ),
    ):
        define_flag(values, name, kind, default, text, choices, group)


def main(values: flags.FlagValues) -> None:
    """Embeds the pictures."""
    for name in ("embedder", "output"):
        if not values[name].value:
            raise ValueError(f"`{name}` must name a folder. Pass --{name}=FOLDER.")
    least = {"batch_size": 1, "processes": 1, "shard_size": 1, "recall_sample": 0}
    check_values(values, least=least, folders=("output",))
    options = ShardOptions._make(values[name].value for name in ShardOptions._fields)
    start = time.monotonic()
    try:
        manifest = write_shards(
            _pictures(values),
            values.embedder,
            values.output,
            options,
            num_processes=values.processes,
            recall_sample=values.recall_sample,
            overwrite=values.overwrite,
            progress=True,
        )
    except KeyboardInterrupt as error:
        raise InterruptedRunError("Interrupted. Run the same command again to continue.") from error
    _report(manifest, Path(values.output), time.monotonic() - start)


def _pictures(values: flags.FlagValues) -> IndexSource:
    if not values.images:
        return source_of(data_flags.load_chosen_split(values, values.embedder)[0])
    if data_flags.given(values) or values["split"].present:
        raise ValueError(
            f"`images` must be left out with `dataset`, its flags and `split`, got {values.images}."
        )
    path = expanded(values.images)
    if values.images == "-" or (path.is_file() and path.suffix.lower() != ".csv"):
        return listed_pictures(read_lines("images", values.images))
    return pictures_in(values.images)


def _report(manifest: dict[str, Any], output: Path, seconds: float) -> None:
    num_images, embedded, shards = manifest["num_images"], manifest["num_embedded"], manifest["shards"]
    images, parts = (_counted(*item) for item in ((num_images, "image"), (len(shards), "shard")))
    print(
        f"{output}: {images} of {manifest['embedding_dim']} dimensions, {manifest['dtype']}, in "
        f"{parts} of {manifest['format']}; {embedded:,} embedded now, "
        f"{embedded / seconds:,.0f} images/s with loading."
    )
    if manifest["scale"] is not None:
        clipped = sum(shard["clipped"] for shard in shards) / (num_images * manifest["embedding_dim"])
        print(
            f"embedding = {manifest['scale']:.6g} * code; {clipped:.4%} of the values were clipped to +-127."
        )
    if manifest["recall"] is not None:
        recalls = (f"{name} {100 * value:.2f}" for name, value in manifest["recall"]["recall@1"].items())
        print(f"Recall@1 of {manifest['recall']['num_images']:,} images, in percent: {', '.join(recalls)}.")
    unreadable = [reason for shard in shards for _, reason in shard["unreadable"]]
    if unreadable:
        print(f"{len(unreadable):,} left out:", *unreadable, sep="\n  ")
    sys.stdout.flush()


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


if __name__ == "__main__":
    run(main, define_flags, USAGE)

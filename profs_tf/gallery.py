"""The gallery command: `python -m profs_tf.gallery --embedder=runs/emoji/embedder --output=gallery.html`."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from absl import flags

from profs_tf import datasets
from profs_tf.cli.command import run
from profs_tf.cli.flag_types import check_values, define_flag
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.metrics.exact.coordinates import DISTANCES
from profs_tf.serving.saved_model import embed_with_saved
from profs_tf.utils.files import write_atomically
from profs_tf.visual.gallery_content import MAPS, find_neighborhoods, map_to_plane
from profs_tf.visual.gallery_html import gallery_page

USAGE = """gallery: draw an HTML page of what an embedder finds: queries and their nearest images.

  python -m profs_tf.gallery --embedder=runs/emoji/embedder --dataset=emoji --output=gallery.html
  python -m profs_tf.gallery --embedder=runs/emoji/embedder --num_queries=2000 --map=tsne
  python -m profs_tf.gallery --embedder=runs/emoji/embedder --queries=0,17,230
  python -m profs_tf.gallery --embedder=runs/cub/embedder --dataset=cub200 \\
      --data_dir=/data/CUB_200_2011 --queries=queries.txt

The page is one file: it loads nothing, and opens without a network. It shows each query with its nearest
images, right and wrong ones marked, the worst class first; the pairs of classes that are most often mixed;
and a map of the embeddings. Type a part of a class's name to see its queries only.

Queries are drawn at random (--num_queries, --seed), or named by --queries: numbers of images in the split, or
a text file with a number or a picture's path (its end will do) on each line. Recall, classes and mixed pairs
are those of the whole split, whatever queries are shown."""

SPLITS = ("train", "test")


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    for name, kind, default, text, choices in (
        ("embedder", str, None, "Folder of the SavedModel that train or export wrote.", ()),
        ("dataset", str, Config.dataset, "Data set, as for the train command.", ()),
        ("data_dir", str, None, "Folder that holds the data set as its archive unpacks.", ()),
        ("split", str, "test", "Unseen classes or those trained on.", SPLITS),
        ("output", str, "gallery.html", "HTML file to write.", ()),
        ("queries", str, None, "Text file that names the queries, or their numbers.", ()),
        ("num_queries", int, 200, "Random queries, where none are named.", ()),
        ("k", int, 8, "Nearest images to show.", ()),
        ("distance", str, "euclidean", "By which images are near.", DISTANCES),
        ("map", str, "pca", "How the map is made; tsne takes far longer.", MAPS),
        ("map_images", int, 2000, "Images on the map at most: the queries, then random ones.", ()),
        ("seed", int, 0, "Seed of random queries and of the map.", ()),
        ("batch_size", int, 128, "Images embedded at once.", ()),
    ):
        define_flag(values, name, kind, default, text, choices)


def main(values: flags.FlagValues) -> None:
    """Writes the page by the flags."""
    if not values.embedder:
        raise ValueError("`embedder` must name the folder of a SavedModel. Pass --embedder=FOLDER.")
    least = {"num_queries": 1, "k": 1, "map_images": 3, "seed": 0, "batch_size": 1}
    check_values(values, least, files=("output",))
    output = Path(values.output)
    split = datasets.load(values.dataset, data_dir=values.data_dir)[SPLITS.index(values.split)]
    if values.k >= len(split):
        raise ValueError(f"`k` must be <= {len(split) - 1}, the other images of the split, got {values.k}.")
    random = np.random.default_rng(values.seed)
    if values.queries is None:
        queries = random.permutation(len(split))[: values.num_queries]
    else:
        queries = named_queries(values.queries, split)
    embeddings = embed_with_saved(values.embedder, split, values.batch_size, progress=True)
    found = find_neighborhoods(embeddings, split.labels, values.k, distance=values.distance, progress=True)
    others = np.setdiff1d(np.arange(len(split)), queries)
    on_map = np.concatenate([queries, random.permutation(others)])[: values.map_images]
    page = gallery_page(
        split,
        found,
        found.worst_first(queries),
        on_map,
        map_to_plane(embeddings[on_map], values.map, values.seed),
        title=f"{values.dataset} {values.split}, {values.embedder}",
        method=values.map,
    )
    write_atomically(output, page)
    print(f"{output}: {len(queries):,} queries, {output.stat().st_size / 2**20:.1f} MB")


def named_queries(text: str, split: ImageList) -> np.ndarray:
    """Returns the images that `--queries` names, each once, int64.

    Args:
        text: path of a text file with a name a line, or numbers separated by commas.
        split: the images.

    Raises:
        ValueError: a name is no number of an image, and not the end of one path of an image alone.
    """
    file = Path(text)
    names = file.read_text("utf-8-sig").splitlines() if file.is_file() else text.split(",")
    names = [name.strip() for name in names if name.strip()]
    if not names:
        raise ValueError(f"`queries` must name at least one image, got none in {text}.")
    return np.array(list(dict.fromkeys(_image(name, split) for name in names)), np.int64)


def _image(name: str, split: ImageList) -> int:
    if name.isdecimal() and int(name) < len(split):
        return int(name)
    end = os.sep + name.lstrip(os.sep)
    paths = () if split.is_in_memory else split.images
    matching = [index for index, path in enumerate(paths) if path.endswith(end) or path == name]
    if len(matching) != 1:
        raise ValueError(
            f"`queries` must be numbers in 0..{len(split) - 1} or each the end of one image's path, "
            f"got {name!r}, which fits {len(matching)} images."
        )
    return matching[0]


if __name__ == "__main__":
    run(main, define_flags, USAGE)

"""The gallery command: `python -m profs_tf.gallery --embedder=runs/emoji/embedder --output=gallery.html`."""

from __future__ import annotations

import os

import numpy as np
from absl import flags

from profs_tf.cli import data_flags
from profs_tf.cli.command import run
from profs_tf.cli.flag_types import check_values, define_flag, read_lines, split_at_commas
from profs_tf.datasets.image_list import ImageList
from profs_tf.metrics.exact.embeddings import DISTANCES
from profs_tf.serving.saved_model import check_saved_model, embed_with_saved
from profs_tf.utils.files import expanded, write_atomically
from profs_tf.visual.gallery_content import MAPS, find_neighborhoods, map_to_plane
from profs_tf.visual.gallery_html import gallery_page

USAGE = """gallery: draw an HTML page of what an embedder finds: queries and their nearest images.

  python -m profs_tf.gallery --embedder=runs/emoji/embedder --output=gallery.html
  python -m profs_tf.gallery --embedder=runs/emoji/embedder --num_queries=2000 --map=tsne
  python -m profs_tf.gallery --embedder=runs/emoji/embedder --queries=0,17,230
  python -m profs_tf.gallery --embedder=cub_embedder --dataset=cub200 \\
      --data_dir=/data/CUB_200_2011 --queries=queries.txt

The page is one file without external resources; it opens without a network. It shows each query with its
nearest images, marked correct or wrong, the worst class first; the pairs of classes confused most often; and
a map of the embeddings. Type a part of a class's name to see its queries only.

The images are the test classes of the embedder's run, unless flags say otherwise. Queries are random
(--num_queries, --seed), or named by --queries: indices of images in the split, or a text file with an index
or the end of an image's path on each line. Recall, classes and confusions are those of the whole split,
whichever queries are shown."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    define_flag(values, "embedder", str, None, "Folder of the SavedModel that train or export wrote.")
    data_flags.define_with_split(values)
    for name, kind, default, text, choices in (
        ("output", str, "gallery.html", "HTML file to write.", ()),
        ("queries", str, None, "Text file that names the queries, or their indices.", ()),
        ("num_queries", int, 200, "Random queries, unless --queries names them.", ()),
        ("k", int, 8, "Nearest images to show.", ()),
        ("distance", str, "euclidean", "Distance of embeddings.", DISTANCES),
        ("map", str, "pca", "Projection to the map; tsne takes far longer.", MAPS),
        ("map_images", int, 2000, "Images on the map at most: the queries, then random ones.", ()),
        ("seed", int, 0, "Seed of random queries and of the map.", ()),
        ("batch_size", int, 128, "Images embedded at once.", ()),
    ):
        define_flag(values, name, kind, default, text, choices)


def main(values: flags.FlagValues) -> None:
    """Writes the page."""
    if not values.embedder:
        raise ValueError("`embedder` must name the folder of a SavedModel. Pass --embedder=FOLDER.")
    least = {"num_queries": 1, "k": 1, "map_images": 3, "seed": 0, "batch_size": 1}
    check_values(values, least, files=("output",))
    check_saved_model(values.embedder)
    output = expanded(values.output)
    split, config = data_flags.load_chosen_split(values, values.embedder)
    # An image of the gallery is not its own neighbor.
    most = split.num_candidates - (split.is_query is not None)
    if values.k > most:
        raise ValueError(f"`k` must be <= {most}, the other images of the gallery, got {values.k}.")
    random = np.random.default_rng(values.seed)
    if values.queries is None:
        possible = len(split) if split.is_query is None else np.flatnonzero(split.is_query)
        queries = random.permutation(possible)[: values.num_queries]
    else:
        queries = named_queries(values.queries, split)
    embeddings = embed_with_saved(values.embedder, split, values.batch_size, progress=True)
    found = find_neighborhoods(
        embeddings,
        split.labels,
        values.k,
        is_query=split.is_query,
        distance=values.distance,
        progress=True,
    )
    others = np.setdiff1d(np.arange(len(split)), queries)
    on_map = np.concatenate([queries, random.permutation(others)])[: values.map_images]
    page = gallery_page(
        split,
        found,
        found.worst_first(queries),
        on_map,
        map_to_plane(embeddings[on_map], values.map, values.seed),
        title=f"{config.dataset} {values.split}, {values.embedder}",
        method=values.map,
    )
    write_atomically(output, page)
    print(f"{output}: {len(queries):,} queries, {output.stat().st_size / 2**20:.1f} MB")


def named_queries(text: str, split: ImageList) -> np.ndarray:
    """Returns the indices of the images that `--queries` names, each once, int64.

    Args:
        text: Path of a text file with a name on each line, or names separated by commas.
        split: The images.

    Raises:
        ValueError: If a name is neither an index nor the end of exactly one image's path.
    """
    # Path.is_file would raise for a list that is longer than a name may be.
    if os.path.isfile(os.path.expanduser(text)):
        names = [line.strip() for line in read_lines("queries", text)]
    else:
        names = split_at_commas([text], lambda name: bool(_matching(name, split)))
    if not names:
        raise ValueError(f"`queries` must name at least one image, got none in {text}.")
    indices = []
    for name in names:
        matching = _matching(name, split)
        if len(matching) != 1:
            raise ValueError(
                f"`queries` must be indices in 0..{len(split) - 1} or each the end of one image's path, "
                f"got {name!r}, which matches {len(matching)} images."
            )
        indices += matching
    return np.array(list(dict.fromkeys(indices)), np.int64)


def _matching(name: str, split: ImageList) -> list[int]:
    """Returns the indices of the images that a name may mean."""
    name = name.strip()
    if name.isdecimal() and int(name) < len(split):
        return [int(name)]
    end = os.sep + name.lstrip(os.sep)
    paths = () if split.is_in_memory else split.images
    return [index for index, path in enumerate(paths) if path.endswith(end) or path == name]


if __name__ == "__main__":
    run(main, define_flags, USAGE)

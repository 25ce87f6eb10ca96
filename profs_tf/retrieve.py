"""The retrieve command: `python -m profs_tf.retrieve --index=pictures.index --query=one.jpg`."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Union

import numpy as np
from absl import flags, logging

from profs_tf.cli import data_flags
from profs_tf.cli.command import run
from profs_tf.cli.flag_types import check_values, define_flag, read_lines, refuse_without, split_at_commas
from profs_tf.metrics.exact.embeddings import DISTANCES
from profs_tf.search.answers import as_json, as_table, strip_label
from profs_tf.search.approximate import import_faiss
from profs_tf.search.faiss_index import FaissReport
from profs_tf.search.index import ImageIndex
from profs_tf.search.queries import check_files
from profs_tf.search.searcher import SEARCHES, Neighbor
from profs_tf.serving.saved_model import check_saved_model
from profs_tf.visual.strip import draw_strip

USAGE = """retrieve: index a folder of pictures by their embeddings, and find those that look like yours.

  python -m profs_tf.retrieve --index=mine.index --embedder=runs/emoji/embedder --folder=/path/to/pictures
  python -m profs_tf.retrieve --index=mine.index --query=one.jpg,two.png
  python -m profs_tf.retrieve --index=mine.index --query_list=queries.txt --k=20 --json
  python -m profs_tf.retrieve --index=mine.index --query=one.jpg --strip=strip.png
  python -m profs_tf.retrieve --index=emoji.index --embedder=runs/emoji/embedder --dataset=emoji \\
      --indexed=0,100
  python -m profs_tf.retrieve --index=mine.index --add=new/ --remove=old.jpg
  python -m profs_tf.retrieve --index=large.index --faiss_factory=IVF1024,SQ8
  python -m profs_tf.retrieve --index=large.index --search=faiss --query=one.jpg

The index is built first if --folder, a flag of the data set or --split is set, or if no query is given.
Without --folder it holds the test classes of the embedder's run, unless flags say otherwise. Build again
after pictures were added, removed or changed: only those are embedded, and their neighbors in the list. After
Ctrl-C or a kill the same command continues, and gives the same index to the bit. An unreadable picture ends
the build with its name; --skip_unreadable leaves such pictures out and names them.

--add embeds further pictures and --remove leaves some out, without building again. A build of the folder
makes the index equal to it.

--query, --query_list and --indexed search in the index, exactly and in blocks; a picture that is in the index
does not find itself. From a million images on, --faiss_factory keeps an index of faiss in the folder. With
it, --search=faiss finds most of the nearest images in a hundredth of the time; how many is measured and
printed. Only the embedder that built the index can embed the queries. Distances are those of the
embeddings: 0 for equal ones, at most 2 if their length is 1."""

_CHANGES = "Changing an index without building it again"
_FAISS = "Approximate search"


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    define_flag(values, "index", str, None, "Folder of the index.")
    define_flag(values, "embedder", str, None, "Folder of the SavedModel; default for queries: the index's.")
    define_flag(values, "folder", str, None, "Folder to index: all pictures at any depth in it.")
    data_flags.define_with_split(values)
    for name, kind, default, text, choices in (
        ("batch_size", int, 128, "Images embedded at once.", ()),
        ("skip_unreadable", bool, False, "Whether to leave out unreadable pictures.", ()),
        ("overwrite", bool, False, "Whether to replace an index of other pictures or another model.", ()),
        ("query", list, (), "Picture files to search for, separated by commas.", ()),
        ("query_list", str, None, "Text file that names picture files, one a line.", ()),
        ("indexed", list, (), "Indexed images to search for, by name or index, separated by commas.", ()),
        ("k", int, 8, "Images to find for each query.", ()),
        ("distance", str, "euclidean", "Distance of embeddings.", DISTANCES),
        (
            "search",
            str,
            "exact",
            "Search method; faiss needs the index that --faiss_factory makes.",
            SEARCHES,
        ),
        ("exclude_self", bool, True, "Whether to exclude an indexed query from its own neighbors.", ()),
        ("json", bool, False, "Whether to print JSON instead of a table.", ()),
        ("strip", str, None, "PNG file to draw each query and its neighbors into.", ()),
    ):
        define_flag(values, name, kind, default, text, choices)
    changes: tuple[tuple[str, type, Any, str, str], ...] = (
        (
            "add",
            list,
            (),
            "Picture files, or one folder, to add to the index, separated by commas.",
            _CHANGES,
        ),
        ("remove", list, (), "Names of images to remove from the index, separated by commas.", _CHANGES),
        (
            "faiss_factory",
            str,
            None,
            "Index of faiss to train and keep, as its index_factory takes it: HNSW32, fast but larger than "
            "the embeddings; IVF1024,SQ8, small, for a million images. Needs pip install 'profs_tf[faiss]'.",
            _FAISS,
        ),
        (
            "faiss_recall",
            float,
            0.95,
            "Recall@10 against the exact search to reach: the fastest setting that does is kept.",
            _FAISS,
        ),
        ("recall_sample", int, 1000, "Indexed images to search for to measure this Recall.", _FAISS),
    )
    for flag in changes:
        define_flag(values, *flag[:4], group=flag[4])


def main(values: flags.FlagValues) -> None:
    """Builds the index and searches in it."""
    if not values.index:
        raise ValueError("`index` must name the folder of the index. Pass --index=FOLDER.")
    check_values(values, least={"batch_size": 1, "k": 1, "recall_sample": 1}, files=("strip",))
    if not 0 < values.faiss_recall <= 1:
        raise ValueError(f"`faiss_recall` must be in (0, 1], got {values.faiss_recall}.")
    if values.faiss_factory:
        import_faiss()
    listed = read_lines("query_list", values.query_list) if values.query_list else []
    # A shell leaves the ~ of --query=~/one.jpg as it is.
    files = [os.path.expanduser(path) for path in split_at_commas(values.query)]
    added = [os.path.expanduser(path) for path in split_at_commas(values.add)]
    check_files(files, "query")
    check_files(listed, "query_list")
    check_files([path for path in added if not os.path.isdir(path)], "add")
    files += listed
    searches = bool(files or values.indexed)
    names_data = bool(data_flags.given(values)) or values["split"].present
    if values.folder and names_data:
        raise ValueError(
            f"`folder` must be left out with `dataset`, its flags and `split`, got {values.folder}."
        )
    changes = bool(values.add or values.remove)
    if not (values.folder or values.embedder or searches or changes or values.faiss_factory):
        raise ValueError(
            "`query` must name a picture unless an index is built. Pass --query=FILE, --query_list=FILE or "
            "--indexed=NAME to search; --embedder=FOLDER, and --folder=FOLDER or --dataset=NAME, to build."
        )
    builds = bool(values.folder or names_data or (values.embedder and not (searches or changes)))
    _refuse_unused(values, searches, builds)
    index = _build(values) if builds else ImageIndex.load(values.index)
    if changes:
        _change(index, values, added)
    if values.faiss_factory:
        _report(values, f"faiss {_build_faiss(index, values)}")
    if searches:
        _search(index, values, files)


def _refuse_unused(values: flags.FlagValues, searches: bool, builds: bool) -> None:
    """Raises ValueError for a flag without the one that it belongs to."""
    if not searches:
        refuse_without(values, "query", "k", "search", "exclude_self", "strip")
    if not (searches or values.faiss_factory):
        refuse_without(values, "query", "distance")
    if not values.faiss_factory:
        refuse_without(values, "faiss_factory", "faiss_recall", "recall_sample")
    if not builds:
        refuse_without(values, "folder", "overwrite")
    if not (builds or values.add):
        refuse_without(values, "folder", "skip_unreadable", "batch_size")
    if not (builds or values.add or values.query or values.query_list):
        refuse_without(values, "query", "embedder")


def _build(values: flags.FlagValues) -> ImageIndex:
    if not values.embedder:
        raise ValueError("`embedder` must name the folder of a SavedModel. Pass --embedder=FOLDER.")
    check_saved_model(values.embedder)
    report = functools.partial(_report, values)
    images = values.folder or data_flags.load_chosen_split(values, values.embedder, report)[0]
    index = ImageIndex.build(
        images,
        values.embedder,
        values.index,
        batch_size=values.batch_size,
        skip_unreadable=values.skip_unreadable,
        overwrite=values.overwrite,
        progress=True,
    )
    _report_index(index, values)
    return index


def _change(index: ImageIndex, values: flags.FlagValues, paths: list[str]) -> None:
    removed = split_at_commas(values.remove, index.names.__contains__)
    if missing := set(removed).difference(index.names):
        raise ValueError(
            f"`remove` must be names in the index, got {min(missing)!r}. Names look like {index.names[0]!r}."
        )
    if paths:
        index.add(
            paths[0] if len(paths) == 1 else paths,
            embedder=values.embedder,
            batch_size=values.batch_size,
            skip_unreadable=values.skip_unreadable,
            progress=True,
        )
    if removed:
        index.remove(removed)
    _report_index(index, values)


def _build_faiss(index: ImageIndex, values: flags.FlagValues) -> FaissReport:
    return index.build_faiss(
        values.faiss_factory,
        distance=values.distance,
        recall=values.faiss_recall,
        recall_sample=values.recall_sample,
        progress=True,
    )


def _report(values: flags.FlagValues, text: str) -> None:
    # With --json standard output is the answer's alone.
    print(text, file=sys.stderr if values.json else sys.stdout, flush=True)


def _report_index(index: ImageIndex, values: flags.FlagValues) -> None:
    skipped = f", {len(index.unreadable):,} left out:" if index.unreadable else ""
    unit = "image" if len(index) == 1 else "images"
    _report(values, f"{index.path}: {len(index):,} {unit} of {index.embedding_dim} dimensions{skipped}")
    for _, reason in index.unreadable:
        _report(values, f"  {reason}")


def _search(index: ImageIndex, values: flags.FlagValues, files: list[str]) -> None:
    options: dict[str, Any] = {name: values[name].value for name in ("distance", "search", "exclude_self")}
    names_indexed = split_at_commas(values.indexed, index.names.__contains__)
    positions = [_position(index, name) for name in names_indexed]
    found: list[list[Neighbor]] = []
    pictures: list[Union[str, np.ndarray]] = [*files, *map(index.picture, positions)]
    names = [*files, *(index.names[position] for position in positions)]
    if files:
        found += index.query(files, values.k, embedder=values.embedder, **options)
    if positions:
        found += index.query_indexed(positions, values.k, **options)
    changed = index.changed(neighbor.position for row in found for neighbor in row)
    if changed:
        logging.warning(
            "%d of the images found have changed since they were indexed, first %s. Build the index again.",
            len(changed),
            changed[0],
        )
    print(as_json(names, found, values.distance) if values.json else as_table(names, found))
    if values.strip:
        rows = [
            [(picture, name), *((index.picture(item.position), strip_label(item)) for item in row)]
            for picture, name, row in zip(pictures, names, found)
        ]
        draw_strip(rows, values.strip)


def _position(index: ImageIndex, name: str) -> int:
    if name in index.names:
        return index.names.index(name)
    if name.isdecimal() and int(name) < len(index):
        return int(name)
    raise ValueError(
        f"`indexed` must be names in the index or indices in 0..{len(index) - 1}, got {name!r}. "
        f"Names look like {index.names[0]!r}."
    )


if __name__ == "__main__":
    run(main, define_flags, USAGE)

"""The retrieve command: `python -m profs_tf.retrieve --index=pictures.index --query=one.jpg`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

from absl import flags, logging

from profs_tf import datasets
from profs_tf.cli.command import run
from profs_tf.cli.flag_types import check_values, define_flag
from profs_tf.metrics.exact.coordinates import DISTANCES
from profs_tf.search.index import SEARCHES, ImageIndex, Neighbor
from profs_tf.visual.strip import draw_strip

USAGE = """retrieve: index a folder of pictures by their embeddings, and find those that look like yours.

  python -m profs_tf.retrieve --index=mine.index --embedder=runs/emoji/embedder --folder=/path/to/pictures
  python -m profs_tf.retrieve --index=mine.index --query=one.jpg,two.png
  python -m profs_tf.retrieve --index=mine.index --query_list=queries.txt --k=20 --json
  python -m profs_tf.retrieve --index=mine.index --query=one.jpg --strip=strip.png
  python -m profs_tf.retrieve --index=emoji.index --embedder=runs/emoji/embedder --dataset=emoji \\
      --indexed=0,100

With --folder or --dataset the index is built first. Run again after pictures came, went or changed: only
those, and those near them in the list, are embedded anew. After Ctrl-C or a kill the same line goes on, and
the index is the same to the bit. A picture that cannot be read ends it, with its name; --skip_unreadable
names all such pictures and leaves them out.

With --query, --query_list or --indexed the index is asked. The search is exact, in blocks; a picture that is
in the index does not find itself. Queries are embedded by the embedder of which the index was made; another
one is refused. Distances are those of the embeddings: 0 is the same, 2 the most where they have length 1."""

SPLITS = ("train", "test")


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    for name, kind, default, text, choices in (
        ("index", str, None, "Folder of the index.", ()),
        ("embedder", str, None, "Folder of the SavedModel; default for queries: the index's.", ()),
        ("folder", str, None, "Folder to index: all pictures at any depth in it.", ()),
        ("dataset", str, None, "Data set to index in place of --folder, as for the train command.", ()),
        ("data_dir", str, None, "Folder that holds the data set as its archive unpacks.", ()),
        ("split", str, "test", "Split of the data set to index.", SPLITS),
        ("batch_size", int, 128, "Images embedded at once.", ()),
        ("skip_unreadable", bool, False, "Whether pictures that cannot be read are left out.", ()),
        ("overwrite", bool, False, "Whether an index of other pictures or model is replaced.", ()),
        ("query", tuple, (), "Picture files to search for.", ()),
        ("query_list", str, None, "Text file that names picture files, one a line.", ()),
        ("indexed", tuple, (), "Images of the index to search for: names, or places from 0 on.", ()),
        ("k", int, 8, "Images to find for each query.", ()),
        ("distance", str, "euclidean", "By which images are near.", DISTANCES),
        ("search", str, "exact", "Who searches; faiss is an extra to be installed.", SEARCHES),
        ("exclude_self", bool, True, "Whether a query that is in the index is left out itself.", ()),
        ("json", bool, False, "Whether to print JSON in place of a table.", ()),
        ("strip", str, None, "PNG file to draw each query and what it found into.", ()),
    ):
        define_flag(values, name, kind, default, text, choices)


def main(values: flags.FlagValues) -> None:
    """Builds and asks by the flags."""
    if not values.index:
        raise ValueError("`index` must name the folder of the index. Pass --index=FOLDER.")
    if values.folder and values.dataset:
        raise ValueError(f"`folder` must be left out with `dataset`, got {values.folder}.")
    check_values(values, least={"batch_size": 1, "k": 1}, files=("strip",))
    files = [*values.query, *_listed(values.query_list)]
    builds = bool(values.folder or values.dataset)
    if not (builds or files or values.indexed):
        raise ValueError(
            "`query` must name a picture where nothing is indexed. Pass --query=FILE, --query_list=FILE or "
            "--indexed=NAME to search; --folder=FOLDER or --dataset=NAME to index."
        )
    index = _build(values) if builds else ImageIndex.load(values.index)
    if files or values.indexed:
        _ask(index, values, files)


def _build(values: flags.FlagValues) -> ImageIndex:
    if not values.embedder:
        raise ValueError("`embedder` must name the folder of a SavedModel. Pass --embedder=FOLDER.")
    images = values.folder
    if values.dataset:
        images = datasets.load(values.dataset, data_dir=values.data_dir)[SPLITS.index(values.split)]
    index = ImageIndex.build(
        images,
        values.embedder,
        values.index,
        batch_size=values.batch_size,
        skip_unreadable=values.skip_unreadable,
        overwrite=values.overwrite,
        progress=True,
    )
    if values.json:
        # Standard output is the answer's alone.
        for _, reason in index.unreadable:
            logging.warning("Left out: %s.", reason)
        return index
    skipped = f", {len(index.unreadable):,} left out:" if index.unreadable else ""
    images = "image" if len(index) == 1 else "images"
    print(f"{index.path}: {len(index):,} {images} of {index.embedding_dim} dimensions{skipped}")
    for _, reason in index.unreadable:
        print(f"  {reason}")
    return index


def _ask(index: ImageIndex, values: flags.FlagValues, files: list) -> None:
    options = {"distance": values.distance, "search": values.search}
    positions = [_position(index, name) for name in values.indexed]
    found, names, pictures = [], [], []
    if files:
        found += index.query(
            files, values.k, embedder=values.embedder, exclude_self=values.exclude_self, **options
        )
        names, pictures = [*files], [*files]
    if positions:
        found += index.query_indexed(positions, values.k, **options)
        names += [index.names[position] for position in positions]
        pictures += [index.picture(position) for position in positions]
    changed = index.changed(neighbor.position for row in found for neighbor in row)
    if changed:
        logging.warning(
            "%d of the images found are not what was indexed any more, the first %s. Index them again.",
            len(changed),
            changed[0],
        )
    print(_as_json(names, found, values.distance) if values.json else _as_table(names, found))
    if values.strip:
        rows = [
            [(picture, name), *((index.picture(item.position), _strip_label(item)) for item in row)]
            for picture, name, row in zip(pictures, names, found)
        ]
        draw_strip(rows, values.strip)


def _position(index: ImageIndex, name: str) -> int:
    if name in index.names:
        return index.names.index(name)
    if name.isdecimal() and int(name) < len(index):
        return int(name)
    raise ValueError(
        f"`indexed` must be names of the index or places in 0..{len(index) - 1}, got {name!r}. "
        f"Names look like {index.names[0]!r}."
    )


def _listed(path: Optional[str]) -> list[str]:
    if path is None:
        return []
    try:
        text = Path(path).read_text("utf-8-sig")
        if "\0" in text:
            raise UnicodeError("it has zero bytes")
        return [line for line in text.splitlines() if line.strip()]
    except (OSError, UnicodeError) as error:
        raise ValueError(
            f"`query_list` must be a text file in UTF-8 that names picture files, one a line, got {path} "
            f"({error})."
        ) from error


def _strip_label(item: Neighbor) -> str:
    name = "" if item.class_name is None else f"\n{item.class_name}"
    return f"{item.distance:.4f}{name}"


def _as_json(names: list, found: list, distance: str) -> str:
    queries = [
        {
            "query": name,
            "neighbors": [
                {
                    "rank": rank,
                    "name": item.name,
                    "position": item.position,
                    "distance": item.distance,
                    **({} if item.class_name is None else {"class": item.class_name}),
                }
                for rank, item in enumerate(row, start=1)
            ],
        }
        for name, row in zip(names, found)
    ]
    return json.dumps({"distance": distance, "queries": queries}, indent=2, ensure_ascii=False)


def _as_table(names: list, found: list) -> str:
    lines = []
    for name, row in zip(names, found):
        lines.append(name)
        lines += [f"{rank:6}  {item.distance:9.4f}  {item.name}" for rank, item in enumerate(row, start=1)]
    return "\n".join(lines)


if __name__ == "__main__":
    run(main, define_flags, USAGE)

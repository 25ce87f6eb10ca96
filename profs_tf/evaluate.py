"""The evaluate command: `python -m profs_tf.evaluate --embedder=runs/emoji/embedder --dataset=emoji`."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from profs_tf.cli import data_flags, embedding_files
from profs_tf.cli.command import run
from profs_tf.cli.flag_types import check_values, define_flag
from profs_tf.metrics.arguments import check_ks
from profs_tf.metrics.retrieval import RetrievalResult
from profs_tf.metrics.scores import evaluate_in_full, format_report, query_and_gallery
from profs_tf.serving.saved_model import embed_with_saved
from profs_tf.utils.files import write_atomically
from profs_tf.utils.option_fields import whole_numbers

USAGE = """evaluate: report Recall@K, NMI and F1 of an exported embedder on a data set, or of embeddings.

  python -m profs_tf.evaluate --embedder=runs/emoji/embedder --dataset=emoji
  python -m profs_tf.evaluate --embedder=runs/cub/embedder --dataset=cub200 --data_dir=/data/CUB_200_2011
  python -m profs_tf.evaluate --embedder=runs/emoji/embedder --split=train --ks=1,10 --noclustering
  python -m profs_tf.evaluate --embeddings=e.npy --labels=l.npy --map_at_r --intervals --class_csv=classes.csv
  python -m profs_tf.evaluate --embeddings=q.npy --labels=q.txt \\
      --gallery_embeddings=g.npy --gallery_labels=g.txt

With --embedder, images go through the embedder's own preprocessing, by the signatures of its SavedModel.
For an embedder in its run's folder, data set and split are the run's unless flags say otherwise.
Each image is a query to all others, itself excluded by its index; images whose class has no other
image are left out and counted; at equal distances, negatives rank first. Embeddings are .npy files,
float [N, D]; labels are .npy files of integers or strings, text files with one label a line, or .csv
files with a column label, whose column split may part the rows into query and gallery."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    define_flag(values, "embedder", str, None, "Folder of the SavedModel that train or export wrote.")
    data_flags.define_with_split(values)
    for name, kind, default, text, choices in (
        ("batch_size", int, 128, "Images embedded at once.", ()),
        (
            "save_embeddings",
            str,
            None,
            "File to write the embeddings to; .npy is added if missing. Names and labels are written beside "
            "it as .csv.",
            (),
        ),
        ("embeddings", str, None, "File with embeddings, instead of --embedder.", ()),
        (
            "labels",
            str,
            None,
            "File with the labels of --embeddings: .npy, .csv or text lines.",
            (),
        ),
        ("gallery_embeddings", str, None, "File with the gallery's embeddings. Default: --embeddings.", ()),
        ("gallery_labels", str, None, "File with the labels of --gallery_embeddings.", ()),
        ("ks", tuple, (1, 2, 4, 8), "K values of Recall@K.", ()),
        ("distance", str, "euclidean", "Distance between embeddings.", ("euclidean", "cosine")),
        ("map_at_r", bool, False, "Whether to report also MAP@R and R-precision.", ()),
        (
            "intervals",
            bool,
            False,
            "Whether to report 95 % intervals of Recall@K, by bootstrap over classes.",
            (),
        ),
        ("clustering", bool, True, "Whether to compute NMI, F1 and AMI, by k-means.", ()),
        ("seed", int, 0, "Seed of k-means and of the intervals.", ()),
        ("output_json", str, None, "File to write the figures to, as fractions.", ()),
        ("class_csv", str, None, "File to write each class's Recall@K to.", ()),
    ):
        define_flag(values, name, kind, default, text, choices)


def main(values: flags.FlagValues) -> None:
    """Evaluates an embedder on a data set, or embeddings from files."""
    ks = whole_numbers("ks", values.ks)
    check_values(
        values,
        least={"batch_size": 1, "seed": 0},
        files=("save_embeddings", "output_json", "class_csv"),
    )
    if values.save_embeddings:
        others = [path for path in (values.output_json, values.class_csv) if path]
        embedding_files.check_saved(values.save_embeddings, others)
    split, name = _embed(values, ks) if values.embedder else _read(values)
    report, found = evaluate_in_full(
        **split,
        ks=ks,
        distance=values.distance,
        map_at_r=values.map_at_r,
        intervals=values.intervals,
        clustering=values.clustering,
        seed=values.seed,
        progress=True,
    )
    labels, gallery = split["labels"], split.get("gallery_labels")
    images = "images" if gallery is None else f"queries in a gallery of {len(gallery):,}"
    print(
        f"{len(labels):,} {images} of {len(np.unique(labels)):,} classes, {report['left_out']:,} left out; "
        "in percent:"
    )
    print(format_report({name: report}))
    if values.output_json:
        write_atomically(Path(values.output_json), json.dumps(report, indent=2) + "\n")
    if values.class_csv:
        write_atomically(Path(values.class_csv), _class_table(found, ks))


def _embed(values: flags.FlagValues, ks: tuple) -> tuple[dict[str, Any], str]:
    """Returns the embeddings of the chosen split with class names as labels, for `evaluate`, and a title."""
    for name in embedding_files.FILES:
        if values[name].value:
            raise ValueError(f"`{name}` must be left out with `embedder`, got {values[name].value}.")
    split, config = data_flags.load_chosen_split(values, values.embedder)
    check_ks(ks, split.num_candidates)
    embeddings = embed_with_saved(values.embedder, split, values.batch_size, progress=True)
    labels = np.asarray(split.class_names)[split.labels]
    if values.save_embeddings:
        embedding_files.save(values.save_embeddings, embeddings, split)
    return query_and_gallery(embeddings, labels, split.is_query), f"{config.dataset} {values.split}"


def _read(values: flags.FlagValues) -> tuple[dict[str, Any], str]:
    """Returns embeddings and labels from files, for `evaluate`, and a title."""
    if not values.embeddings or not values.labels:
        raise ValueError(
            "`embedder` must name the folder of a SavedModel, or `embeddings` and `labels` files. "
            "Pass --embedder=FOLDER, or --embeddings=FILE.npy --labels=FILE."
        )
    unused = [name for name in ("split", "batch_size", "save_embeddings") if values[name].present]
    for name in (*data_flags.given(values), *unused):
        raise ValueError(f"`{name}` must be left out with `embeddings`, got {values[name].value}.")
    files = {name: values[name].value for name in embedding_files.FILES}
    return embedding_files.read(files), Path(values.embeddings).name


def _class_table(found: RetrievalResult, ks: tuple[int, ...]) -> str:
    """Returns each class's number of queries and its Recall@K as CSV, the worst class first."""
    recalls = {k: found.class_recall_at(k) for k in ks}
    labels, counts = np.unique(found.labels[found.counted], return_counts=True)
    rows = [
        (label, count, *(recalls[k][label] for k in ks))
        for label, count in zip(labels.tolist(), counts.tolist())
    ]
    rows.sort(key=lambda row: row[2:])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["class", "images", *(f"recall@{k}" for k in ks)])
    writer.writerows(rows)
    return text.getvalue()


if __name__ == "__main__":
    run(main, define_flags, USAGE)

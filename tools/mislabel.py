"""Writes a table of a data set in which a share of the training images has the label of another class.

    python tools/mislabel.py --dataset=cars196 --data_dir=FOLDER --share=0.2 --output=runs/wrong_labels.csv
    python -m profs_tf.train --dataset=csv:runs/wrong_labels.csv ...

The wrong classes are drawn uniformly from the other training classes, the images from all of them, by the
seed. The labels of the test images stay right. Paths in the table are absolute; bounding boxes, queries and
gallery are kept.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path

import numpy as np
from command_line import check_output_file, run_steps

from profs_tf import datasets
from profs_tf.utils.checks import check_count
from profs_tf.utils.files import expanded, write_atomically


def parse_arguments(arguments: list | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", required=True, help="cub200, cars196, sop, folder:PATH or csv:PATH")
    parser.add_argument("--data_dir", help="where cub200, cars196 or sop is")
    parser.add_argument("--allow_partial_data", action="store_true", help="accept an incomplete copy")
    parser.add_argument("--share", type=float, default=0.2, help="of the training images (default: 0.2)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--output", type=expanded, required=True, help="CSV file to write; must not exist")
    return parser.parse_args(arguments)


def check_arguments(arguments: argparse.Namespace) -> None:
    """Raises an error unless the values are in their range and the output is a new file."""
    if not 0.0 <= arguments.share <= 1.0:
        raise ValueError(f"`share` must be in [0, 1], got {arguments.share}. Leave it out for 0.2.")
    check_count("seed", arguments.seed, "Leave it out for 0.", minimum=0)
    check_output_file("output", arguments.output)
    if arguments.output.exists():
        raise FileExistsError(
            f"`output` must be a new file, got {arguments.output}, which exists. Choose another name."
        )


def read_images(arguments: argparse.Namespace) -> tuple:
    """Returns (train, test) of the data set.

    Raises:
        ValueError: If there are too few classes, or the images are not files.
        FileNotFoundError, NotADirectoryError: If the data set is not found.
    """
    try:
        train, test = datasets.load(
            arguments.dataset, arguments.data_dir, allow_partial_data=arguments.allow_partial_data
        )
    except ValueError as error:
        # An argument that this tool leaves at its default.
        raise ValueError(str(error).replace("`train_classes`", "`dataset`")) from error
    for images in (train, test):
        if isinstance(images.images, np.ndarray):
            raise ValueError(
                f"`dataset` must be image files, got {arguments.dataset}, which is in memory. Choose cub200, "
                "cars196, sop, folder:PATH or csv:PATH."
            )
    return train, test


def mislabel(images: datasets.ImageList, share: float, seed: int) -> np.ndarray:
    """Returns the labels, int64 [N], of which round(share N) are those of another class."""
    random = np.random.default_rng(seed)
    wrong = random.choice(len(images), round(share * len(images)), replace=False)
    labels = images.labels.copy()
    # A step of 1 to L - 1 around the circle of the classes ends at any other class.
    steps = random.integers(1, len(images.class_names), len(wrong))
    labels[wrong] = (labels[wrong] + steps) % len(images.class_names)
    return labels


def rows_of(images: datasets.ImageList, labels: np.ndarray, splits: list) -> list:
    """Returns the lines of the table, dicts."""
    rows = []
    for index, (path, split) in enumerate(zip(images.images, splits)):
        row = {"path": Path(path).absolute(), "label": images.class_names[labels[index]], "split": split}
        if images.boxes is not None:
            row.update(zip("xywh", images.boxes[index].tolist()))
        rows.append(row)
    return rows


def splits_of(test: datasets.ImageList) -> list:
    """Returns the column `split` of the test images: test, or query and gallery where the list has them."""
    if test.is_query is None:
        return ["test"] * len(test)
    return ["query" if is_query else "gallery" for is_query in test.is_query]


def write_table(path: Path, rows: list) -> None:
    """Writes the lines as a CSV file, in one step."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.getvalue())


def mislabel_data_set(arguments: argparse.Namespace) -> None:
    """Reads the data set, writes the table and prints how many labels are wrong."""
    train, test = read_images(arguments)
    labels = mislabel(train, arguments.share, arguments.seed)
    rows = rows_of(train, labels, ["train"] * len(train)) + rows_of(test, test.labels, splits_of(test))
    write_table(arguments.output, rows)
    print(f"{np.sum(labels != train.labels)} of {len(train)} training labels are wrong: {arguments.output}")


def main(arguments: list | None = None) -> int:
    """Writes the table; returns the exit code."""
    return run_steps(parse_arguments(arguments), __file__, check_arguments, mislabel_data_set)


if __name__ == "__main__":
    sys.exit(main())

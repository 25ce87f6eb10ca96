"""Writes a table of a data set in which a share of the training images has the label of another class.

    python tools/mislabel.py --dataset=cars196 --data_dir=FOLDER --share=0.2 --output=runs/wrong_labels.csv
    python -m profs_tf.train --dataset=csv:runs/wrong_labels.csv ...

The wrong classes are drawn uniformly from the other training classes, the images from all of them, by the
seed. The labels of the test images stay right. Paths in the table are absolute; bounding boxes are kept.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from profs_tf import datasets


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", required=True, help="cub200, cars196, sop, folder:PATH or csv:PATH")
    parser.add_argument("--data_dir", help="where cub200, cars196 or sop is")
    parser.add_argument("--allow_partial_data", action="store_true", help="accept an incomplete copy")
    parser.add_argument("--share", type=float, default=0.2, help="of the training images (default: 0.2)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    parsed = parser.parse_args()
    if not 0.0 <= parsed.share <= 1.0:
        parser.error(f"`share` must be in [0, 1], got {parsed.share}.")
    return parsed


def mislabel(images: datasets.ImageList, share: float, seed: int) -> np.ndarray:
    """Returns the labels, int64 [N], of which round(share N) are those of another class."""
    if len(images.class_names) < 2:
        raise SystemExit(f"`dataset` must have two training classes or more, got {images.class_names}.")
    random = np.random.default_rng(seed)
    wrong = random.choice(len(images), round(share * len(images)), replace=False)
    labels = images.labels.copy()
    # A step of 1 to L - 1 around the circle of the classes ends at any other class.
    steps = random.integers(1, len(images.class_names), len(wrong))
    labels[wrong] = (labels[wrong] + steps) % len(images.class_names)
    return labels


def rows_of(images: datasets.ImageList, labels: np.ndarray, split: str) -> list:
    """Returns the lines of the table, dicts."""
    rows = []
    for index, path in enumerate(images.images):
        row = {"path": Path(path).absolute(), "label": images.class_names[labels[index]], "split": split}
        if images.boxes is not None:
            row.update(zip("xywh", images.boxes[index].tolist()))
        rows.append(row)
    return rows


def main() -> None:
    """Reads the data set and writes the table."""
    arguments = parse_arguments()
    train, test = datasets.load(
        arguments.dataset, arguments.data_dir, allow_partial_data=arguments.allow_partial_data
    )
    for images in (train, test):
        if isinstance(images.images, np.ndarray):
            raise SystemExit(f"`dataset` must be image files, got {arguments.dataset}, which is in memory.")
    labels = mislabel(train, arguments.share, arguments.seed)
    rows = rows_of(train, labels, "train") + rows_of(test, test.labels, "test")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with open(arguments.output, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{np.sum(labels != train.labels)} of {len(train)} training labels are wrong: {arguments.output}")


if __name__ == "__main__":
    main()

"""The evaluate command: `python -m profs_tf.evaluate --embedder=runs/emoji/embedder --dataset=emoji`."""

import json
from pathlib import Path

from absl import flags

from profs_tf import datasets
from profs_tf.command_line import run
from profs_tf.config import Config, whole_numbers
from profs_tf.config_flags import define_one
from profs_tf.evaluation import evaluate, format_report
from profs_tf.run_folder import write_atomically
from profs_tf.serving import embed_with_saved

USAGE = """evaluate: report Recall@K, NMI and F1 of an exported embedder on a data set.

  python -m profs_tf.evaluate --embedder=runs/emoji/embedder --dataset=emoji
  python -m profs_tf.evaluate --embedder=runs/cub/embedder --dataset=cub200 --data_dir=/data/CUB_200_2011
  python -m profs_tf.evaluate --embedder=runs/emoji/embedder --split=train --ks=1,10 --noclustering

Images go through the embedder's own preprocessing, by the signatures of its SavedModel. Each image of the
split is searched for among all others of the split; images whose class has no other image are left out."""

SPLITS = ("test", "train")


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    define_one(values, "embedder", str, "", "Folder of the SavedModel that train or export wrote.")
    define_one(values, "dataset", str, Config.dataset, "Data set, as for the train command.")
    define_one(values, "data_dir", str, None, "Folder that holds the data set as its archive unpacks.")
    define_one(values, "split", str, "test", "Unseen classes or those trained on.", choices=SPLITS)
    define_one(values, "ks", tuple, (1, 2, 4, 8), "The K of Recall@K.")
    define_one(values, "clustering", bool, True, "Whether to compute NMI and F1, by k-means.")
    define_one(values, "seed", int, 0, "Seed of k-means.")
    define_one(values, "batch_size", int, 128, "Images embedded at once.")
    define_one(values, "output_json", str, None, "File to write the figures to, as fractions.")


def main(values: flags.FlagValues) -> None:
    """Evaluates by the flags."""
    if not values.embedder:
        raise ValueError("`embedder` must name the folder of a SavedModel. Pass --embedder=FOLDER.")
    ks = whole_numbers("ks", values.ks)
    split = datasets.load(values.dataset, data_dir=values.data_dir)[SPLITS[::-1].index(values.split)]
    embeddings = embed_with_saved(values.embedder, split, values.batch_size, progress=True)
    report = evaluate(embeddings, split.labels, ks=ks, clustering=values.clustering, seed=values.seed)
    print(f"{len(split):,} images of {split.num_classes:,} classes, in percent:")
    print(format_report({f"{values.dataset} {values.split}": report}))
    if values.output_json:
        write_atomically(Path(values.output_json), json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    run(main, define_flags, USAGE)

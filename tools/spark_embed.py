r"""Embeds pictures with Spark: each Python worker loads the SavedModel once, with TensorFlow alone.

    spark-submit --conf spark.task.cpus=4 --conf spark.executor.cores=4 tools/spark_embed.py \
        --embedder=/shared/embedder --images=hdfs:///pictures --output=hdfs:///embeddings

With as many processors for a task as for an executor, each executor has one model, which uses them all.
The embedder's folder must lie at the same path on every executor; --images and --output are what Spark reads
and writes. Output: Parquet with the columns name, checksum (the SHA-256 of the file) and embedding.

TensorFlow decodes the files. The embeddings of JPEG and PNG files without EXIF orientation are those of
`python -m profs_tf.embed`; of others the orientation is ignored, and an unreadable file ends the job.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession, functions

# Spark tells upper-case from lower-case letters.
PATTERN = "*.{jpg,jpeg,png,JPG,JPEG,PNG}"


def main() -> None:
    """Runs the job."""
    arguments = parse_arguments()
    spark = SparkSession.builder.appName("embed").getOrCreate()
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(arguments.batch_size))
    # Workers import this file as a module, which keeps the model from task to task.
    spark.sparkContext.addPyFile(__file__)
    files = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", True)
        .option("pathGlobFilter", arguments.pattern)
        .load(arguments.images)
    )
    if arguments.partitions:
        files = files.repartition(arguments.partitions)
    embed = functions.pandas_udf(embed_with(arguments.embedder), "array<float>")
    files.select(
        functions.col("path").alias("name"),
        functions.sha2("content", 256).alias("checksum"),
        embed("content").alias("embedding"),
    ).write.parquet(arguments.output)
    spark.stop()


def parse_arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--embedder", required=True, help="folder of the SavedModel, on every executor")
    parser.add_argument("--images", required=True, help="folder of pictures at any depth")
    parser.add_argument("--output", required=True, help="folder to write; it must not exist")
    parser.add_argument("--pattern", default=PATTERN, help=f"of file names ({PATTERN})")
    parser.add_argument("--batch_size", type=int, default=64, help="images embedded at once (default: 64)")
    parser.add_argument("--partitions", type=int, default=0, help="tasks; default: by the files' sizes")
    return parser.parse_args(words)


def embed_with(embedder: str) -> Any:
    """Returns the function of the pandas UDF: batches of files' bytes to batches of embeddings."""

    def embed(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        import spark_embed
        import tensorflow as tf

        model = spark_embed.load(embedder)
        for contents in batches:
            embeddings = model.signatures["encoded_images"](images=tf.constant(contents.tolist()))[
                "embeddings"
            ]
            yield pd.Series(list(embeddings.numpy()))

    # Spark reads the kind of UDF from them, and takes no text for a type.
    embed.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return embed


@functools.lru_cache(maxsize=1)
def load(embedder: str) -> Any:
    """Loads a SavedModel once in a process."""
    import tensorflow as tf

    return tf.saved_model.load(embedder)


if __name__ == "__main__":
    main()

"""What is to be embedded and how: the same in every process that takes part.

Shapes: N images, n images of a shard, D embedding dimension.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, NamedTuple, Optional

import numpy as np

from profs_tf.search.source import IndexSource
from profs_tf.shards.folder import FORMAT_VERSION


class ShardOptions(NamedTuple):
    """How embeddings are computed and stored.

    Attributes:
        format: One of `formats.FORMATS`.
        dtype: One of `dtypes.DTYPES`.
        batch_size: Images embedded at once.
        shard_size: Images of a shard, the unreadable ones included.
        skip_unreadable: Whether unreadable pictures are left out.
    """

    format: str = "npy"
    dtype: str = "float32"
    batch_size: int = 128
    shard_size: int = 4096
    skip_unreadable: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """The pictures, cut into shards.

    Attributes:
        source: N pictures.
        embedder: Folder of the SavedModel.
        embedder_sha256: Hash of what its embeddings depend on.
        output: Folder of the shards.
        options: How embeddings are computed and stored.
        in_sample: Bool `[N]`, the images that Recall is measured on; None for none.
        scale: Of int8 codes; None for other types, and before it is known.
        recall_sample: Number of images, at most, that Recall is measured on.
    """

    source: IndexSource
    embedder: str
    embedder_sha256: str
    output: str
    options: ShardOptions
    in_sample: Optional[np.ndarray] = None
    scale: Optional[float] = None
    recall_sample: int = 0

    @property
    def num_images(self) -> int:
        """N."""
        return len(self.source.names)

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return -(-self.num_images // self.options.shard_size)

    def rows(self, number: int) -> slice:
        """Returns the positions of a shard's pictures."""
        start = number * self.options.shard_size
        return slice(start, min(start + self.options.shard_size, self.num_images))

    def key(self, number: int) -> str:
        """Returns a hash that changes when a picture of the shard does, by its size or time."""
        return hashlib.sha256(json.dumps(self.source.stamps(self.rows(number))).encode()).hexdigest()

    def identity(self) -> dict[str, Any]:
        """Returns what all shards depend on, for the manifest."""
        lines = zip(self.source.names, self.source.classes or ("",) * self.num_images)
        digest = hashlib.sha256(self.source.root.encode())
        for line in lines:
            digest.update(json.dumps(line).encode())
        return {
            "format_version": FORMAT_VERSION,
            "embedder": self.embedder,
            "embedder_sha256": self.embedder_sha256,
            "root": self.source.root,
            "inputs_sha256": digest.hexdigest(),
            "num_inputs": self.num_images,
            "recall_sample": self.recall_sample,
            **{name: getattr(self.options, name) for name in ("format", "dtype", "batch_size", "shard_size")},
        }

    def about(self) -> dict[str, Any]:
        """Returns what a reader of a single shard needs to know."""
        return {"embedder_sha256": self.embedder_sha256, "dtype": self.options.dtype, "scale": self.scale}

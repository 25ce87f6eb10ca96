"""The readers that are fuzzed.

Each is made of an empty folder, has the `errors` that a user is shown, yields the files to begin with
(`seeds`), and reads the bytes of one file when called. The constructor imports what it reads with, because
coverage is counted in modules that are imported after the fuzzer began.
"""

import contextlib
import json
import zlib
from pathlib import Path

import numpy as np

EXPERIMENTS = Path(__file__).resolve().parents[2] / "experiments"
SEPARATOR = b"\n--8<--\n"


class TorchLegacy:
    """PyTorch's format before 1.6."""

    def __init__(self, folder):
        from profs_tf.backbones.weights.pytorch.state_dict import read_tensors

        self.errors = (ValueError,)
        self._path, self._read = folder / "net.pth", read_tensors

    def seeds(self):
        """Returns a file with tensors of two types, and one with a view of a storage."""
        from tests.backbones import torch_files

        array = np.arange(6, dtype=np.float32)
        view = b"(" + torch_files.text("6") + torch_files.number(1) + torch_files.number(4) + b"t"
        items = [("w", torch_files.tensor("5", array, (2,), (1,), view=view))]
        yield torch_files.legacy(torch_files.state_dict(items), {"5": array})
        yield self._saved(torch_files.save_legacy)

    def _saved(self, save):
        save(self._path, {"w": np.ones((2, 3), np.float32), "n": np.array(7, np.int64)})
        return self._path.read_bytes()

    def __call__(self, data):
        """Reads one file."""
        self._path.write_bytes(data)
        self._read(str(self._path))


class TorchZip(TorchLegacy):
    """PyTorch's format since 1.6."""

    def seeds(self):
        """Returns a file with tensors of two types."""
        from tests.backbones import torch_files

        yield self._saved(torch_files.save)


class Safetensors:
    """A .safetensors file: a length, a JSON header and the tensors' bytes."""

    def __init__(self, folder):
        from profs_tf.backbones.weights.safetensors import read_safetensors

        self.errors = (ValueError,)
        self._path, self._read = folder / "net.safetensors", read_safetensors

    def seeds(self):
        """Returns a file with tensors of two types and metadata, and an empty one."""
        tensors = {"w": ("F32", [2, 3], [0, 24]), "n": ("I64", [], [24, 32])}
        header = {
            name: dict(zip(("dtype", "shape", "data_offsets"), values)) for name, values in tensors.items()
        }
        for content in ({"__metadata__": {"format": "pt"}, **header}, {}):
            text = json.dumps(content).encode()
            yield len(text).to_bytes(8, "little") + text + bytes(32 if content else 0)

    def __call__(self, data):
        """Reads one file."""
        self._path.write_bytes(data)
        self._read(str(self._path))


class CaffeNpz:
    """Caffe's blobs as an .npz file."""

    def __init__(self, folder):
        import tensorflow as tf

        from profs_tf.backbones.weights.caffe import load_caffe_blobs

        self.errors = (ValueError,)
        images = tf.keras.Input((None, None, 3))
        self._model = tf.keras.Model(images, tf.keras.layers.Conv2D(2, 1, name="conv")(images))
        self._path, self._load = folder / "net.npz", load_caffe_blobs

    def seeds(self):
        """Returns a plain and a compressed file of the model's weights."""
        blobs = {"conv/weights": np.ones((2, 3, 1, 1), "f"), "conv/biases": np.ones(2, "f")}
        for save in (np.savez, np.savez_compressed):
            save(self._path, **blobs)
            yield self._path.read_bytes()

    def __call__(self, data):
        """Reads one file."""
        self._path.write_bytes(data)
        self._load(self._model, str(self._path), "conv")


class Csv:
    """A data set listed in a CSV file; the images a to h exist."""

    def __init__(self, folder):
        from profs_tf.datasets.csv import from_csv, list_csv

        self.errors = (ValueError, FileNotFoundError)
        for name in "abcdefgh":
            (folder / name).write_bytes(b"")
        self._path, self._readers = folder / "list.csv", (from_csv, list_csv)

    def seeds(self):
        """Returns tables with and without boxes and a split."""
        yield b"path,label\na,cat\nb,cat\nc,dog\nd,dog\ne,ox\nf,ox\ng,elk\nh,elk\n"
        yield b"path,label,split,x,y,w,h\n" + b"".join(
            f'"{name}",{number // 2},{"train" if number < 4 else "test"},0,1.5,2,3\n'.encode()
            for number, name in enumerate("abcdefgh")
        )

    def __call__(self, data):
        """Reads one file, by both functions."""
        self._path.write_bytes(data)
        for read in self._readers:
            with contextlib.suppress(*self.errors):
                read(self._path)


class Index:
    """The folder of an image index: manifest, table and embeddings, with right or wrong checksums."""

    def __init__(self, folder):
        from profs_tf.search.index import ImageIndex
        from profs_tf.search.storage import IndexFolder

        self.errors = (ValueError, FileNotFoundError)
        self._folder, self._open, self._storage = folder / "index", ImageIndex, IndexFolder

    def seeds(self):
        """Returns an index of three images."""
        from profs_tf.search.chunks import Chunk
        from profs_tf.search.writing import publish

        identity = {"embedder": "/e", "embedder_sha256": "abc", "root": "/pictures"}
        columns = {"names": ["a", "b", "c"], "classes": ["x", "y", "y"], "sizes": [1, 2, 3]}
        table = {**columns, "mtimes_ns": [4, 5, 6], "chunks": [["k", 0, 3, []]], "unreadable": [["d", "no"]]}
        storage = self._storage(self._folder)
        with storage.building(identity, overwrite=False):
            chunk = Chunk(np.eye(3, 4, dtype=np.float32), [])
            publish(storage, identity, ["k"], iter([chunk]), table, None)
        manifest = json.loads((self._folder / "index.json").read_text())
        parts = [(self._folder / manifest[name]).read_bytes() for name in ("images", "embeddings")]
        manifest.update(images="images-1.json", embeddings="embeddings-1.npy")
        content = self._with_checksums(json.dumps(manifest).encode(), *parts)
        for repair in (b"\1", b"\0"):
            yield repair + SEPARATOR.join([content, *parts])

    def __call__(self, data):
        """Reads one index."""
        manifest, images, embeddings = [*data[1:].split(SEPARATOR, 2), b"", b""][:3]
        (self._folder / "images-1.json").write_bytes(images)
        (self._folder / "embeddings-1.npy").write_bytes(embeddings)
        if data[:1] == b"\1":
            manifest = self._with_checksums(manifest, images, embeddings)
        (self._folder / "index.json").write_bytes(manifest)
        self._open(self._folder)

    @staticmethod
    def _with_checksums(manifest, images, embeddings):
        try:
            content = json.loads(manifest)
            content["checksums"] = {"images": zlib.crc32(images), "embeddings": zlib.crc32(embeddings)}
            content.pop("checksum", None)
            content["checksum"] = zlib.crc32(json.dumps(content, sort_keys=True).encode())
            return json.dumps(content).encode()
        except (ValueError, TypeError, AttributeError, RecursionError):
            return manifest


class FlagFile:
    """A flag file of the train command, up to the `Config` of the run."""

    def __init__(self, folder):
        from absl import flags

        from profs_tf import train
        from profs_tf.cli import config_flags

        # absl compares an unknown flag with every known one, which takes most of the time.
        flags._flagvalues._helpers.get_flag_suggestions = lambda *arguments: []
        from profs_tf.config import Config

        self.errors = (ValueError, FileNotFoundError, flags.Error)
        self._path = folder / "run.flags"
        self._values, self._given, self._config = flags.FlagValues(), config_flags.given, Config
        train.define_flags(self._values)

    def seeds(self):
        """Returns the flag files of the experiments."""
        for path in sorted(EXPERIMENTS.glob("*.flags")):
            yield path.read_bytes()
        yield b"--loss=margin\n--margin_boundary=1.2\n--nomirror\n--ks=1,2\n--output_dir=run\n"

    def __call__(self, data):
        """Reads one file."""
        # Another file, such as /dev/zero, is the user's own choice.
        self._path.write_bytes(data.replace(b"flagfile", b"flagfail"))
        self._values.unparse_flags()
        self._values(["train", f"--flagfile={self._path}"])
        self._config(**self._given(self._values))


READERS = {
    "torch_legacy": TorchLegacy,
    "torch_zip": TorchZip,
    "safetensors": Safetensors,
    "caffe_npz": CaffeNpz,
    "csv": Csv,
    "index": Index,
    "flags": FlagFile,
}

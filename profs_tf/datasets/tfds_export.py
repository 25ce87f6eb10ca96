"""Writes the images of a prepared TensorFlow dataset to files, once.

Training reads images by index, but record files can only be read in sequence. The encoded bytes are copied
unchanged to ``profs_tf_images/NAME/VERSION/CLASS/POSITION.jpg`` in the data folder of TensorFlow Datasets.
TensorFlow is imported only to download a dataset or to write its images.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, Optional, Union

from tqdm import tqdm

from profs_tf.utils.files import expanded

_CLASS_FILE = "classes.txt"


@dataclasses.dataclass(frozen=True)
class TfdsReader:
    """How to read one dataset.

    Attributes:
        name: Its name in TensorFlow Datasets.
        features: Names of the features to read besides "image".
        class_of: Function of an example (feature name -> value) and the dataset's features, returning the
            class number, counted from 0, and the class name.
    """

    name: str
    features: tuple[str, ...]
    class_of: Callable[[dict[str, Any], dict[str, Any]], tuple[int, str]]


def data_folder(data_dir: Optional[Union[str, os.PathLike]]) -> Path:
    """Returns ``data_dir`` if given, else the default data folder of TensorFlow Datasets."""
    return expanded(data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")


def prepared_folder(name: str, data_dir: Path) -> Optional[Path]:
    """Returns the folder of the newest prepared version of a dataset, or None."""
    prepared = [path.parent for path in (data_dir / name).glob("*/dataset_info.json")]
    # A dataset that is still being prepared has a name such as incomplete.ABC_1.0.0.
    versions = [path for path in prepared if re.fullmatch(r"\d+\.\d+\.\d+", path.name)]
    return max(versions, key=lambda path: [int(part) for part in path.name.split(".")], default=None)


def download(name: str, data_dir: Path) -> Path:
    """Downloads and prepares a dataset by TensorFlow Datasets; returns its folder."""
    import tensorflow_datasets as tfds

    builder = tfds.builder(name, data_dir=str(data_dir))
    builder.download_and_prepare()
    return Path(builder.data_dir)


def export_images(reader: TfdsReader, prepared: Path) -> tuple[list[str], list[int], dict[int, str]]:
    """Writes the images of all splits to files, unless they exist already.

    The folder gets its final name only when all images are written, so a killed process never leaves an
    incomplete copy under that name.

    Args:
        reader: How to read the dataset.
        prepared: The folder of the prepared dataset.

    Returns:
        (N file paths, N class numbers, class number -> class name).

    Raises:
        PermissionError: If the data folder is not writable.
    """
    folder = prepared.parent.parent / "profs_tf_images" / prepared.parent.name / prepared.name
    if not folder.exists():
        unfinished = _make_unfinished_folder(folder)
        try:
            _write_all(reader, prepared, unfinished)
            _publish(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return _list_images(folder)


def _make_unfinished_folder(folder: Path) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except PermissionError as error:
        raise PermissionError(
            f"`{folder}` must be writable to hold the data set's images as files, got: {error}. "
            "Copy the prepared data set to a writable folder and pass it as `data_dir`."
        ) from error


def _write_all(reader: TfdsReader, prepared: Path, folder: Path) -> None:
    import tensorflow_datasets as tfds

    builder = tfds.builder_from_directory(prepared)
    wanted = {"image": builder.info.features["image"]}
    wanted.update({name: builder.info.features[name] for name in reader.features})
    dataset = builder.as_dataset(
        split="+".join(sorted(builder.info.splits)),
        decoders=tfds.decode.PartialDecoding(wanted, decoders={"image": tfds.decode.SkipDecoding()}),
        # Reading one file after the other fixes the order.
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
    )
    names = {}
    examples = tqdm(
        dataset.as_numpy_iterator(), f"write {reader.name}", len(dataset), unit=" images", disable=None
    )
    for position, example in enumerate(examples):
        class_id, names[class_id] = reader.class_of(example, builder.info.features)
        path = folder / f"{class_id:05d}" / f"{position:06d}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(example["image"])
    lines = "".join(f"{class_id} {name}\n" for class_id, name in sorted(names.items()))
    (folder / _CLASS_FILE).write_text(lines, "utf-8")


def _publish(unfinished: Path, folder: Path) -> None:
    """Gives the written folder its final name, unless another process has written the same meanwhile."""
    unfinished.chmod(0o755)
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.exists():
            raise


def _list_images(folder: Path) -> tuple[list[str], list[int], dict[int, str]]:
    lines = (folder / _CLASS_FILE).read_text("utf-8").splitlines()
    names = {int(line.split(" ", 1)[0]): line.split(" ", 1)[1] for line in lines}
    paths, class_ids = [], []
    for class_id in sorted(names):
        class_folder = folder / f"{class_id:05d}"
        for file_name in sorted(os.listdir(class_folder)):
            paths.append(str(class_folder / file_name))
            class_ids.append(class_id)
    return paths, class_ids, names

"""Builds an index in small batches, and reads all its files."""

import profs_tf as profs
from profs_tf.search import builder


def build(pictures, embedder, path, **options):
    return profs.ImageIndex.build(pictures, embedder, path, batch_size=3, **options)


def contents(folder):
    """The files of an index by name, without the lock file, which stays."""
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def record_embedded(monkeypatch):
    """Returns a list that from now on receives the names of the embedded files."""
    names = []
    embed = builder._embed_batch

    def record(source, model, batch, skip_unreadable):
        names.extend(source.names[batch])
        return embed(source, model, batch, skip_unreadable)

    monkeypatch.setattr(builder, "_embed_batch", record)
    return names

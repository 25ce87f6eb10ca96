"""Converts published weights of a backbone, in whatever format, to one Keras weights file.

    python tools/convert_weights.py bn_inception bn_inception.pth bn_inception.h5
    python tools/convert_weights.py inception_v1 inception_v1.ckpt inception_v1.h5
    python tools/convert_weights.py googlenet googlenet.npz googlenet.h5
    python tools/convert_weights.py --show bn_inception.h5

The format depends on the backbone: a TF-Slim checkpoint (one file, or the prefix of .index and .data files),
a PyTorch state dict or Caffe's blobs in an .npz file. `--pretrained` of the commands takes the new file like
the old one, and so does `load_weights` of the backbone in Keras. The file carries a manifest: the backbone,
the SHA-256 of the source, the scaling of images, and names, shapes and SHA-256 of the weights.
"""

import argparse
import glob
import json
import os
import sys

from profs_tf import backbones
from profs_tf.backbones.weights.archive import is_archive, read_manifest, save_archive
from profs_tf.utils.checks import check_one_of


def parse_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", metavar="FILE", help="print the manifest of a converted file and exit")
    parser.add_argument("backbone", nargs="?", help=f"one of {', '.join(backbones.names())}")
    parser.add_argument("source", nargs="?", help="the published file")
    parser.add_argument("output", nargs="?", help="the new file; ends in .h5 and must not exist")
    arguments = parser.parse_args()
    if not arguments.show and not arguments.output:
        parser.error("BACKBONE, SOURCE and OUTPUT are required, or --show=FILE")
    return arguments


def convert(backbone: str, source: str, output: str) -> dict:
    """Writes the weights of ``source`` to ``output`` and returns their manifest.

    Raises:
        ValueError: If the backbone is unknown, the source is not a complete file of its weights, or the
            output exists or does not end in .h5.
    """
    check_one_of("backbone", backbone, backbones.names())
    if not output.endswith(".h5") or os.path.exists(output):
        raise ValueError(f"`output` must be a new file that ends in .h5, got {output!r}.")
    if is_archive(source):
        raise ValueError(f"`source` must be a published file, got {source!r}, which is converted already.")
    network = backbones.get(backbone)(pretrained=source)
    return save_archive(network, output, source_files(source))


def source_files(source: str) -> list:
    """Returns the files of a source: itself, or those of the checkpoint whose prefix it is."""
    if os.path.isfile(source):
        return [source]
    return sorted(glob.glob(f"{glob.escape(source)}.index") + glob.glob(f"{glob.escape(source)}.data-*"))


def main() -> int:
    """Converts or shows; returns the exit status."""
    arguments = parse_arguments()
    try:
        if arguments.show:
            print(json.dumps(read_manifest(arguments.show), indent=1))
            return 0
        manifest = convert(arguments.backbone, arguments.source, arguments.output)
    except (ValueError, OSError) as error:
        print(f"convert_weights: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.output}: {len(manifest['weights'])} weights, SHA-256 {manifest['sha256']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

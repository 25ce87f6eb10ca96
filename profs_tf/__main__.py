"""Lists the commands, or runs one: `profs-tf train --help` is `python -m profs_tf.train --help`."""

import runpy
import sys

COMMANDS = {
    "train": "train an embedding, evaluate it on held-out classes, export it",
    "evaluate": "Recall@K, NMI and F1 of an embedder or of saved embeddings",
    "export": "the embedder of a run as SavedModel, TensorFlow Lite or ONNX",
    "embed": "the embeddings of pictures as NumPy or Parquet files, for other tools",
    "retrieve": "build an index of images, and find the nearest ones to yours",
    "gallery": "an HTML page of queries with their nearest images",
    "check_data": "unreadable files, duplicates and sizes of a data set",
}
USAGE_ERROR = 2


def main() -> None:
    """Runs the command that the first argument names, with the arguments behind it."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print(_listing())
        return
    if name not in COMMANDS:
        print(f"profs-tf: `{name}` is not a command.\n\n{_listing()}", file=sys.stderr)
        sys.exit(USAGE_ERROR)
    del sys.argv[1]
    runpy.run_module(f"profs_tf.{name}", run_name="__main__", alter_sys=True)


def _listing() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    return (
        "Usage: profs-tf COMMAND [--FLAG=VALUE ...], or python -m profs_tf.COMMAND\n\n"
        f"{commands}\n\nprofs-tf COMMAND --help lists the flags of a command."
    )


if __name__ == "__main__":
    main()

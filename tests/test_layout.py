"""The layout of the package: few files at the top, none too long, and folders that import only lower ones."""

import ast
import statistics
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "profs_tf"
FILES = sorted(PACKAGE.rglob("*.py"))
COMMANDS = ("check_data", "embed", "evaluate", "export", "gallery", "retrieve", "train")
# Lower first; what stands in one line may not import each other.
LAYERS = (
    ("utils", "version"),
    ("sampling", "metrics", "losses"),
    ("config",),
    ("datasets",),
    ("distribution",),
    ("inputs",),
    ("backbones",),
    ("models",),
    ("optimizers",),
    ("callbacks",),
    ("serving",),
    ("search", "visual"),
    ("shards",),
    ("runs",),
    ("cli",),
    COMMANDS,
)
LEVELS = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}


def length(path):
    return len(path.read_text("utf-8").splitlines())


def folder_of(path):
    """Returns the folder of a file, or the name of a file at the top."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_folders(path):
    """The folders, or files at the top, that a file imports anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "profs_tf":
            names = [f"profs_tf.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("profs_tf."))


def test_few_files_lie_at_the_top():
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_files_have_a_readable_length():
    lengths = {str(path.relative_to(PACKAGE)): length(path) for path in FILES if path.name != "__init__.py"}
    assert {path: lines for path, lines in lengths.items() if lines > 300} == {}
    assert 60 <= statistics.median(lengths.values()) <= 150


def test_every_folder_has_its_layer():
    assert {folder_of(path) for path in FILES} - {"__init__", "__main__"} == set(LEVELS)


def test_folders_import_only_lower_layers():
    wrong = {
        f"{path.relative_to(PACKAGE)} imports {imported}"
        for path in FILES
        if (own := folder_of(path)) in LEVELS
        for imported in imported_folders(path)
        if imported in LEVELS and imported != own and LEVELS[imported] >= LEVELS[own]
    }
    assert wrong == set()


def test_tests_mirror_the_package():
    tests = Path(__file__).parent
    folders = {path.parent.relative_to(PACKAGE) for path in FILES if path.name == "__init__.py"}
    assert {str(folder) for folder in folders if not list((tests / folder).glob("test_*.py"))} == set()

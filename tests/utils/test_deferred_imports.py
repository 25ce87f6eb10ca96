"""Modules that are imported with TensorFlow: every order of imports, by small packages in its place."""

import subprocess
import sys
from pathlib import Path

import pytest

from profs_tf.utils import deferred_imports

FILES = {
    # Without the rest of the package, which waits for TensorFlow itself.
    "deferred_imports.py": Path(deferred_imports.__file__).read_text("utf-8"),
    # As the libraries import each other: each is incomplete while it imports the other.
    "tensorflow/__init__.py": "import keras\ncomplete = True\n",
    "keras/__init__.py": "import tensorflow\ncomplete = True\n",
    "mine/__init__.py": """
from deferred_imports import import_with_tensorflow
import_with_tensorflow("mine", ("mine.losses", "mine.optimizers"))
""",
    "mine/base.py": "import keras, tensorflow\n(keras.complete, tensorflow.complete)\nclass Base: pass\n",
    "mine/losses.py": "from mine.base import Base\n",
    "mine/optimizers.py": "from mine.losses import Base\n",
    "mine/plain.py": "",
    "mine/broken.py": "raise ImportError('no such library')\n",
}
# Statements, and whether they import TensorFlow.
ORDERS = {
    "import mine, mine.plain": False,
    "import mine, tensorflow": True,
    "import tensorflow, mine": True,
    "import mine, keras": True,
    "import keras, mine": True,
    "import mine.base": True,
    "from mine.losses import Base": True,
    "import mine.plain, mine.optimizers": True,
    "import tensorflow, mine.base": True,
}


@pytest.fixture
def run(tmp_path):
    """Runs a program beside the packages; returns the lines that it prints."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run_program(*lines):
        path = f"import sys; sys.path.insert(0, {str(tmp_path)!r})"
        done = subprocess.run(
            [sys.executable, "-c", "\n".join([path, *lines])], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run_program


def test_modules_are_imported_with_tensorflow_in_any_order(run):
    loaded = "print(sorted(set(sys.modules) & {'mine.losses', 'mine.optimizers', 'tensorflow'}))"
    watches = "print([finder for finder in sys.meta_path if type(finder).__name__ == '_ImportWatch'] != [])"
    restart = (
        "for name in {*sys.modules} - {*modules}: del sys.modules[name]",
        "sys.meta_path[:] = finders",
    )
    lines = [line for order in ORDERS for line in (order, loaded, watches, *restart)]
    printed = run("modules, finders = {*sys.modules}, [*sys.meta_path]", *lines)
    everything = "['mine.losses', 'mine.optimizers', 'tensorflow']"
    expected = [(everything, "False") if imports else ("[]", "True") for imports in ORDERS.values()]
    assert list(zip(printed[::2], printed[1::2])) == expected


def test_module_that_cannot_be_imported_fails_when_it_is_used(run):
    assert run(
        "import mine",
        "from deferred_imports import import_with_tensorflow",
        "import_with_tensorflow('mine', ('mine.broken',))",
        "import tensorflow",
        "try: import mine.broken",
        "except ImportError as error: print(error)",
    ) == ["no such library"]

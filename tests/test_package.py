"""What holds for the package as a whole: imports, silence, the house's rules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "profs_tf"
COMMANDS = {"check_data", "embed", "train", "evaluate", "export", "gallery", "retrieve"}
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).replace(".__init__", ""): path
    for path in PACKAGE.rglob("*.py")
}


def imports_of(module, at_import_only=False):
    """The modules that a module imports; with `at_import_only` without those inside functions."""
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    inside = set()
    if at_import_only:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or is_type_checking(
                node
            ):
                inside.update(id(child) for child in ast.walk(node))
    names = set()
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def is_within(name, package):
    return name == package or name.startswith(package + ".")


def modules_within(package):
    return [module for module in MODULES if is_within(module, package)]


def test_nothing_imports_a_command():
    for module in MODULES:
        for name in imports_of(module):
            assert not any(is_within(name, f"profs_tf.{command}") for command in COMMANDS), module


def test_only_commands_and_their_flags_import_absl_flags():
    allowed = {*modules_within("profs_tf.cli"), *(f"profs_tf.{name}" for name in COMMANDS)}
    offenders = {
        module for module in MODULES if any(is_within(name, "absl.flags") for name in imports_of(module))
    }
    assert offenders <= allowed


def test_losses_import_only_losses():
    for module in modules_within("profs_tf.losses"):
        for name in imports_of(module):
            allowed = any(is_within(name, package) for package in ("profs_tf.losses", "profs_tf.utils"))
            assert allowed or not is_within(name, "profs_tf"), (module, name)


@pytest.mark.parametrize(
    "module",
    [
        *modules_within("profs_tf.sampling"),
        *modules_within("profs_tf.metrics"),
        "profs_tf.datasets.image_list",
        "profs_tf.config",
        "profs_tf",
    ],
)
def test_does_not_need_tensorflow(module):
    reached, waiting = set(), [module]
    while waiting:
        current = waiting.pop()
        if current in reached:
            continue
        reached.add(current)
        for name in imports_of(current, at_import_only=True):
            assert not is_within(name, "tensorflow"), f"{module} reaches tensorflow through {current}"
            waiting += [known for known in (name, name.rpartition(".")[0]) if known in MODULES]


def test_importing_is_silent_and_quick_and_first_use_of_everything_is_silent():
    code = (
        "import sys, time; begin = time.process_time(); import profs_tf as profs; "
        "print(time.process_time() - begin); print('tensorflow' in sys.modules); "
        "[getattr(profs, name) for name in profs.__all__]; "
        f"import {', '.join(f'profs_tf.{name}' for name in sorted(COMMANDS))}"
    )
    words = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={"PATH": ""})
    assert done.returncode == 0, done.stderr
    seconds, has_tensorflow = done.stdout.splitlines()  # nothing else was printed
    assert done.stderr == ""
    assert has_tensorflow == "False"
    # NumPy takes a tenth of a second, TensorFlow several.
    assert float(seconds) < 2.0


def test_unknown_name_lists_the_valid_ones():
    import profs_tf

    with pytest.raises(
        AttributeError, match="no attribute 'ProfModel'; it has: BatchSampler, .*train_pipeline"
    ):
        profs_tf.ProfModel  # noqa: B018
    with pytest.raises(AttributeError, match="it is profs_tf.metrics.evaluate"):
        profs_tf._load("evaluate")
    assert set(profs_tf.__all__) <= set(dir(profs_tf))


LOAD = """
import sys
{imports}
model = tf.keras.models.load_model(sys.argv[1])
print(type(model.loss).__module__, type(model.optimizer).__module__, model.loss.margin)
print(*sys.modules)
print(tf.keras.Model.__module__)
from tensorflow.keras import layers
print(issubclass(layers.Dense, tf.Module))
"""


@pytest.fixture(scope="module")
def compiled_model(tmp_path_factory):
    """A stock Keras model in a file, compiled with a loss and the optimizer of the package."""
    import tensorflow as tf

    import profs_tf as profs

    model = tf.keras.Sequential([tf.keras.Input([4]), tf.keras.layers.Dense(2, name="head")])
    model.compile(profs.head_adam(model, 1e-3, head_layer="head"), loss=profs.losses.MarginLoss(margin=0.3))
    path = tmp_path_factory.mktemp("model") / "margin.h5"
    with pytest.warns(UserWarning, match="saving your model as an HDF5 file"):
        model.save(path)
    return path


@pytest.mark.parametrize(
    "imports",
    ["import profs_tf\nimport tensorflow as tf", "import tensorflow as tf\nimport profs_tf"],
    ids=["ours first", "tensorflow first"],
)
def test_keras_2_finds_our_classes_whichever_is_imported_first(imports, compiled_model):
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(imports=imports), str(compiled_model)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    loaded, modules, keras, has_its_submodules = done.stdout.splitlines()
    assert loaded == "profs_tf.losses.margin profs_tf.optimizers.head_adam 0.3"
    assert modules_that_register() <= set(modules.split())
    assert keras.startswith(("keras.src.engine", "tf_keras.src.engine"))
    assert has_its_submodules == "True"


def modules_that_register():
    return {
        name for name, path in MODULES.items() if "register_keras_serializable(" in path.read_text("utf-8")
    }

"""Imports a package's modules together with TensorFlow, whichever of the two is imported first.

``tf.keras.models.load_model`` finds the classes that are registered with Keras, and a class is registered
when its module is imported. A package that imports its modules on first use may not have registered them by
then, and importing TensorFlow to do so would make the package slow to import.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def import_with_tensorflow(
    package: str,
    modules: Sequence[str],
    context: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
) -> None:
    """Imports modules now if TensorFlow is imported, else as soon as it is.

    Args:
        package: The package that the modules belong to.
        modules: Their full names.
        context: Gives a context manager for the import of TensorFlow.
    """
    watch = _ImportWatch(package, modules, context)
    if not watch.import_if_due():
        sys.meta_path.insert(0, watch)


class _ImportWatch(MetaPathFinder):
    """Waits for the end of an outermost import of TensorFlow, Keras or the package's modules.

    Within such an import some modules are only partly executed, so that others cannot import from them.
    """

    _libraries = ("tensorflow", "keras", "tf_keras")

    def __init__(
        self, package: str, modules: Sequence[str], context: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self._package, self._modules, self._context = package, modules, context
        self._depth = 0
        self._is_done = False

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Has the later finders find a module, and watches its execution."""
        if self._is_done or not (name in self._libraries or name.startswith(f"{self._package}.")):
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in later)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._watch(spec.loader)
        return spec

    def _watch(self, loader: Any) -> None:
        execute = loader.exec_module

        def execute_and_import(module: ModuleType) -> None:
            self._depth += 1
            try:
                with self._context() if module.__name__ == "tensorflow" else contextlib.nullcontext():
                    execute(module)
            finally:
                self._depth -= 1
            self.import_if_due()

        loader.exec_module = execute_and_import

    def import_if_due(self) -> bool:
        """Imports the modules if TensorFlow is completely imported; returns whether they are."""
        if self._depth or self._is_done or "tensorflow" not in sys.modules:
            return self._is_done
        self._is_done = True
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        for module in self._modules:
            # A module that cannot be imported raises when it is used; it must not break TensorFlow's import.
            with contextlib.suppress(ImportError):
                importlib.import_module(module)
        return True

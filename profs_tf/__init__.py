"""profs_tf: deep metric learning with alternating projections onto feasible sets (PROFS).

Public names are loaded when they are first used, so that importing the package is quick and silent.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

from profs_tf.utils.deferred_imports import import_with_tensorflow
from profs_tf.utils.legacy_keras import use_legacy_keras
from profs_tf.utils.startup_notices import startup_notices_held_back
from profs_tf.version import __version__

if TYPE_CHECKING:
    from profs_tf import datasets, losses, metrics
    from profs_tf.callbacks.ccp import CcpCallback
    from profs_tf.callbacks.profs import ProfsCallback
    from profs_tf.callbacks.recall import RecallCallback
    from profs_tf.inputs.pipeline import train_pipeline
    from profs_tf.inputs.preprocessing import Preprocessing
    from profs_tf.models.embedder import build_embedder
    from profs_tf.models.head_init import whiten_head
    from profs_tf.models.profs_model import ProfsModel
    from profs_tf.optimizers.head_adam import head_adam
    from profs_tf.sampling.batch_sampler import BatchSampler
    from profs_tf.sampling.hncm.sampler import MinedBatchSampler
    from profs_tf.sampling.plateau.sampler import PlateauBatchSampler
    from profs_tf.search.index import ImageIndex
    from profs_tf.serving.saved_model import save_embedder

# TensorFlow 2.15 writes a dozen lines about oneDNN, CUDA and TensorRT to standard error when it is imported,
# three of them at level ERROR though nothing is wrong. What does go wrong also raises in Python. Set the
# variable to 0 to see them.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

use_legacy_keras()

# Public name -> the module that defines it; None: the name is itself a module of the package.
_HOMES = {
    "BatchSampler": "profs_tf.sampling.batch_sampler",
    "CcpCallback": "profs_tf.callbacks.ccp",
    "ImageIndex": "profs_tf.search.index",
    "MinedBatchSampler": "profs_tf.sampling.hncm.sampler",
    "PlateauBatchSampler": "profs_tf.sampling.plateau.sampler",
    "Preprocessing": "profs_tf.inputs.preprocessing",
    "ProfsCallback": "profs_tf.callbacks.profs",
    "ProfsModel": "profs_tf.models.profs_model",
    "RecallCallback": "profs_tf.callbacks.recall",
    "build_embedder": "profs_tf.models.embedder",
    "datasets": None,
    "head_adam": "profs_tf.optimizers.head_adam",
    "losses": None,
    "metrics": None,
    "save_embedder": "profs_tf.serving.saved_model",
    "train_pipeline": "profs_tf.inputs.pipeline",
    "whiten_head": "profs_tf.models.head_init",
}

__all__ = [
    "BatchSampler",
    "CcpCallback",
    "ImageIndex",
    "MinedBatchSampler",
    "PlateauBatchSampler",
    "Preprocessing",
    "ProfsCallback",
    "ProfsModel",
    "RecallCallback",
    "__version__",
    "build_embedder",
    "datasets",
    "head_adam",
    "losses",
    "metrics",
    "save_embedder",
    "train_pipeline",
    "whiten_head",
]


def _load(name: str) -> Any:
    if name == "evaluate":
        raise AttributeError(
            "module 'profs_tf' has no function 'evaluate': it is profs_tf.metrics.evaluate; the command is "
            "the module profs_tf.evaluate, to be imported."
        )
    if name not in _HOMES:
        raise AttributeError(f"module 'profs_tf' has no attribute '{name}'; it has: {', '.join(__all__)}.")
    home = _HOMES[name]
    module = importlib.import_module(home or f"profs_tf.{name}")
    value = getattr(module, name) if home else module
    globals()[name] = value
    return value


# A type checker that knew of it would take every name for one of the package's.
if not TYPE_CHECKING:
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))


# Keras loads a model with these classes in it only once they are registered.
import_with_tensorflow(
    "profs_tf",
    ("profs_tf.losses", "profs_tf.optimizers.head_adam", "profs_tf.models.profs_model"),
    context=startup_notices_held_back,
)

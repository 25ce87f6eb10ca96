"""The front matter of the model card: what the Hugging Face Hub shows, filters and compares, as YAML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from profs_tf.config import Config

# As the Hub spells them. The library reads SavedModels of Keras 2.
_LIBRARY = "tf-keras"
_TASK = "image-feature-extraction"
# For a license that the Hub's list lacks, or that nobody has stated.
OTHER_LICENSE = "other"


def front_matter(
    config: Config, metrics: Mapping[str, float], num_shared_classes: int, license_id: str = OTHER_LICENSE
) -> str:
    """Returns the front matter, between two lines of dashes.

    Args:
        config: Of the run.
        metrics: {name: fraction} of the embedder; empty if nothing was evaluated.
        num_shared_classes: Number of the evaluated classes that also trained.
        license_id: The Hub's identifier of a license.
    """
    kind, _, path = config.dataset.partition(":")
    name = os.path.basename(os.path.normpath(path)) if path else kind
    entries: dict[str, Any] = {
        "library_name": _LIBRARY,
        "pipeline_tag": _TASK,
        "license": license_id,
        "tags": ["metric-learning", "image-retrieval", "profs", config.backbone, f"{config.loss}-loss"],
    }
    if metrics:
        split = "test" if config.validation_classes is None else "validation"
        seen = f", {num_shared_classes} of which trained" if num_shared_classes else ""
        results = {
            "task": {"type": _TASK, "name": "Image retrieval"},
            "dataset": {
                "type": kind,
                "name": f"{name}, {split} classes{seen}",
                "split": split,
            },
            "metrics": [
                {"type": metric.replace("@", "_at_"), "name": metric, "value": round(value, 6)}
                for metric, value in metrics.items()
            ],
        }
        entries["metrics"] = ["recall"]
        entries["model-index"] = [{"name": f"{config.backbone} embedder, {name}", "results": [results]}]
    # JSON is YAML, and quotes what needs it.
    lines = (f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in entries.items())
    return f"---\n{''.join(lines)}---\n"

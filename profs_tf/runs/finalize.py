"""What a run leaves behind: the embedder of the best epoch, its metrics, its learning curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from profs_tf.config import Config
from profs_tf.metrics.scores import evaluate, format_report, query_and_gallery
from profs_tf.models.inference import embed
from profs_tf.runs.factory import build_best_embedder
from profs_tf.runs.fine_tuning import frozen_batch_norm
from profs_tf.runs.log import mean_of_last_evaluations
from profs_tf.runs.training_run import RunCallbacks, TrainingRun
from profs_tf.serving.saved_model import save_embedder
from profs_tf.visual.learning_curves import draw_learning_curves


def export_best(run: TrainingRun, callbacks: RunCallbacks) -> dict[str, Any]:
    """Exports the best epoch's embedder; writes metrics.json, the projector and the learning curves.

    Returns:
        What is written to metrics.json.
    """
    config, folder, recall = run.config, run.folder, callbacks.recall
    embedder = run.embedder
    if run.strategy.num_replicas_in_sync > 1:
        # One that is not spread over replicas: only this process evaluates and exports.
        embedder = build_best_embedder(config, folder.best_weights)
    else:
        embedder.load_weights(str(folder.best_weights)).expect_partial()
    if config.export or folder.embedder.exists():
        # An earlier export in the run's folder would no longer be of the best epoch.
        save_embedder(embedder, run.preprocessing, folder.embedder)
    metrics = {
        "best": {**recall.best, **_scores_of_best(run, callbacks, embedder)},
        "last_three": _means_of_last_three(recall.best, callbacks.log.rows),
        "untrained": recall.untrained,
        "steps": run.model.steps_taken,
        "steps_per_projection": run.sampler.steps_per_projection,
        "batch_size": run.sampler.batch_size,
    }
    if run.num_shared_classes:
        metrics["shared_classes"] = run.num_shared_classes
    folder.write_metrics(metrics)
    evaluated = "test" if run.config.validation_classes is None else "validation"
    draw_learning_curves(callbacks.log.rows, folder.curves, evaluated)
    print(_report(run, metrics, callbacks.log.rows), flush=True)
    return metrics


def _means_of_last_three(best: Mapping[str, float], rows: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Returns the means over the last three evaluations of the metrics that each of them has."""
    names = [name for name in best if name not in ("epoch", "evaluation_seconds")]
    means = {name: mean_of_last_evaluations(rows, name) for name in names}
    return {name: mean for name, mean in means.items() if mean is not None}


def _scores_of_best(run: TrainingRun, callbacks: RunCallbacks, embedder: tf.keras.Model) -> dict[str, float]:
    """Returns NMI and F1 with the recalls if `clustering` is "best"; also writes TensorBoard's projector."""
    clusters = run.config.clustering == "best"
    if not clusters and not callbacks.board.writes_projector:
        return {}
    embeddings = embed(
        embedder if run.features is None else run.model.embedder,
        run.test_inputs,
        preprocessing=run.preprocessing,
        batch_size=run.config.batch_size,
    )
    callbacks.board.write_projector(embeddings)
    if not clusters:
        return {}
    split = query_and_gallery(embeddings, run.test_images.labels, run.test_images.is_query)
    return evaluate(**split, ks=run.config.ks, map_at_r=run.config.map_at_r, seed=run.config.seed)


def _report(run: TrainingRun, metrics: dict[str, Any], rows: Sequence[Mapping[str, str]]) -> str:
    config, folder = run.config, run.folder
    classes = f"{run.test_images.num_classes:,} unseen classes"
    if run.num_shared_classes:
        classes = f"{run.test_images.num_classes:,} classes, {run.num_shared_classes:,} of which trained"
    first = "untrained" if config.initial_run is None else "first"
    later = f"python -m profs_tf.export --run_dir={folder.path} --output={folder.embedder} writes it"
    return (
        f"\nBest epoch: {best_epoch(config, metrics['best'], rows)}\nOn {classes}, in percent:\n"
        f"{format_report({first: metrics['untrained'], 'best': metrics['best']})}\n"
        f"Embedder: {folder.embedder if folder.embedder.exists() else later}\nCurves: {folder.curves}"
    )


def best_epoch(config: Config, best: Mapping[str, float], rows: Sequence[Mapping[str, str]]) -> str:
    """Returns which epoch is the best; if it is the untrained network, also what may help.

    Args:
        config: Of the run.
        best: The metrics of the best epoch.
        rows: Those of the log.
    """
    if best["epoch"]:
        return f"{best['epoch']:g} of {config.epochs}."
    monitored = f"recall@{min(config.ks)}"
    trained = [float(row[monitored]) for row in rows if row["epoch"] != "0" and monitored in row]
    worse = max(trained, default=0.0) < best[monitored]
    ideas = [f"a --learning_rate {'below' if worse else 'other than'} {config.learning_rate:g}"]
    if frozen_batch_norm(config) == "none":
        ideas.append("--freeze_batch_norm=statistics")
    if config.train_layers == "all":
        ideas.append("--train_layers=head")
    kept = "The embedder is exported" if config.export else "What is kept is"
    return (
        f"0 (the network before training): training {'made it worse' if worse else 'did not improve it'}. "
        f"{kept} untrained. Try {', '.join(ideas)}, or another --loss than {config.loss}."
    )

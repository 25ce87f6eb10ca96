"""What a run leaves when its training is over: the embedder of the best epoch, its figures, its curves."""

from typing import Any

from profs_tf.callbacks.recall import RecallCallback
from profs_tf.config import Config
from profs_tf.datasets.image_list import ImageList
from profs_tf.inputs.preprocessing import Preprocessing
from profs_tf.metrics.scores import evaluate, format_report
from profs_tf.models.inference import embed
from profs_tf.models.profs_model import ProfsModel
from profs_tf.runs.directory import RunFolder
from profs_tf.runs.factory import build_model
from profs_tf.runs.log import RunLog
from profs_tf.sampling.batch_sampler import BatchSampler
from profs_tf.serving.saved_model import save_embedder
from profs_tf.visual.learning_curves import draw_learning_curves
from profs_tf.visual.tensorboard import EmbeddingBoard


def finish(
    config: Config,
    folder: RunFolder,
    model: ProfsModel,
    sampler: BatchSampler,
    recall: RecallCallback,
    log: RunLog,
    preprocessing: Preprocessing,
    test_images: ImageList,
    board: EmbeddingBoard,
) -> dict[str, Any]:
    """Exports the best epoch's embedder, and writes metrics.json, the projector and the learning curves."""
    embedder = model.embedder
    if model.distribute_strategy.num_replicas_in_sync > 1:
        # One that is not spread over replicas: only this process evaluates and exports.
        embedder = build_model(config, sampler.num_classes, steps_per_epoch=1).embedder
    embedder.load_weights(str(folder.best_weights)).expect_partial()
    save_embedder(embedder, preprocessing, folder.embedder)
    best = dict(recall.best)
    clusters = config.clustering == "best"
    if clusters or board.writes_projector:
        embeddings = embed(embedder, test_images, preprocessing=preprocessing, batch_size=config.batch_size)
        board.write_projector(embeddings)
    if clusters:
        best.update(evaluate(embeddings, test_images.labels, ks=config.ks, seed=config.seed))
    metrics = {
        "best": best,
        "untrained": recall.untrained,
        "steps": model.steps_taken,
        "steps_per_projection": sampler.steps_per_projection,
        "batch_size": sampler.batch_size,
    }
    folder.write_metrics(metrics)
    draw_learning_curves(log.rows, folder.curves)
    first = "untrained" if config.initial_run is None else "first"
    print(
        f"\nBest epoch: {best['epoch']} of {config.epochs}. "
        f"On {test_images.num_classes:,} unseen classes, in percent:\n"
        f"{format_report({first: recall.untrained, 'best': best})}\n"
        f"Embedder: {folder.embedder}\nCurves: {folder.curves}",
        flush=True,
    )
    return metrics

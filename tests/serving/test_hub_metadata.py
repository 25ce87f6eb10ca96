import yaml

from profs_tf.config import Config
from profs_tf.serving.hub_metadata import front_matter


def parsed(text):
    opening, entries, rest = text.split("---\n")
    assert opening == rest == ""
    return yaml.safe_load(entries)


def test_says_what_the_hub_reads():
    config = Config(dataset="folder:/data/my birds: ü/", backbone="resnet50", loss="margin")
    found = parsed(front_matter(config, {"recall@1": 0.51234567, "nmi": 0.8}, 0, "cc-by-4.0"))
    assert found["library_name"] == "tf-keras"
    assert found["pipeline_tag"] == "image-feature-extraction"
    assert found["license"] == "cc-by-4.0"
    assert found["metrics"] == ["recall"]
    assert {"metric-learning", "image-retrieval", "resnet50", "margin-loss"} <= set(found["tags"])
    (model,) = found["model-index"]
    assert model["name"] == "resnet50 embedder, my birds: ü"
    (result,) = model["results"]
    assert result["task"]["type"] == "image-feature-extraction"
    assert result["dataset"] == {"type": "folder", "name": "my birds: ü, test classes", "split": "test"}
    assert result["metrics"] == [
        {"type": "recall_at_1", "name": "recall@1", "value": 0.512346},
        {"type": "nmi", "name": "nmi", "value": 0.8},
    ]


def test_claims_neither_metrics_nor_unseen_classes_where_there_are_none():
    found = parsed(front_matter(Config(dataset="emoji"), {}, 0))
    assert found["license"] == "other"
    assert not {"metrics", "model-index"} & set(found)
    config = Config(dataset="emoji", validation_classes=0.2)
    (model,) = parsed(front_matter(config, {"recall@1": 0.5}, 7))["model-index"]
    dataset = model["results"][0]["dataset"]
    assert dataset["name"] == "emoji, validation classes, 7 of which trained"
    assert dataset["split"] == "validation"

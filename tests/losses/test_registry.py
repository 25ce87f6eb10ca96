import inspect

import pytest

from profs_tf import losses

NAMES = [
    "angular",
    "arc_face",
    "contrastive",
    "cos_face",
    "lifted_structure",
    "margin",
    "multi_similarity",
    "n_pair",
    "norm_softmax",
    "proxy_anchor",
    "proxy_nca",
    "soft_triple",
    "sup_con",
    "triplet",
]
# The columns of the losses' table: unit embeddings, and the defaults.
TABLE = {
    "contrastive": (True, {"margin": 1.0, "mining": "hard"}),
    "triplet": (True, {"margin": 0.2, "mining": "hard"}),
    "margin": (True, {"boundary": 1.2, "margin": 0.2, "mining": "hard", "learning_rate": 5e-4}),
    "lifted_structure": (False, {"margin": 1.0}),
    "n_pair": (False, {"l2_weight": 0.002}),
    "angular": (False, {"angle": 45.0, "n_pair_weight": 0.0, "l2_weight": 0.002}),
    "multi_similarity": (True, {"alpha": 2.0, "beta": 50.0, "base": 0.5, "eps": 0.1}),
    "soft_triple": (
        True,
        {
            "centers_per_class": 10,
            "scale": 20.0,
            "gamma": 0.1,
            "tau": 0.2,
            "margin": 0.01,
            "learning_rate": 1e-2,
        },
    ),
    "proxy_nca": (True, {"scale": 3.0, "positive_in_denominator": False, "learning_rate": 1e-2}),
    "proxy_anchor": (True, {"margin": 0.1, "scale": 32.0, "learning_rate": 1e-2}),
    "norm_softmax": (True, {"temperature": 0.05, "learning_rate": 1e-2}),
    "cos_face": (True, {"margin": 0.35, "scale": 64.0, "learning_rate": 1e-2}),
    "arc_face": (True, {"margin": 28.6, "scale": 64.0, "learning_rate": 1e-2}),
    "sup_con": (True, {"temperature": 0.1}),
}


def required(name):
    if not losses.loss_class(name).has_prototypes:
        return {}
    return {"num_classes": 5, "embedding_dim": 5}


def test_names():
    assert losses.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_table(name):
    normalized, defaults = TABLE[name]
    loss = losses.get(name, **required(name))
    assert type(loss) is losses.loss_class(name)
    assert loss.normalized_embeddings is normalized
    assert loss.baseline_queries == ("representatives" if name in ("n_pair", "angular") else "all")
    options = losses.options(name)
    assert {option: options[option].default for option in defaults} == defaults
    config = loss.get_config()
    assert {option: config[option] for option in defaults} == defaults
    assert loss.name == name + "_loss" == config["name"]


@pytest.mark.parametrize("name", NAMES)
def test_options_are_the_constructor_s(name):
    options = losses.options(name)
    loss_class = type(losses.get(name, **required(name)))
    parameters = inspect.signature(loss_class).parameters
    assert [*options, "name"] == list(parameters)
    for option, (kind, default, _) in options.items():
        assert kind in (bool, int, float, str)
        assert default is None or type(default) is kind
        assert default == parameters[option].default


def test_get_passes_the_options_on():
    loss = losses.get("margin", boundary=1.0, mining="distance_weighted", seed=4)
    assert isinstance(loss, losses.MarginLoss)
    assert (loss.initial_boundary, loss.mining, loss.seed) == (1.0, "distance_weighted", 4)


def test_unknown_names_list_the_valid_ones():
    valid = ", ".join(NAMES)
    for call in (losses.get, losses.options):
        with pytest.raises(ValueError, match=f"`name` must be one of {valid}, got 'contrastiv'."):
            call("contrastiv")
    with pytest.raises(ValueError, match="`mining` is not an option of loss n_pair. It has: l2_weight."):
        losses.get("n_pair", mining="hard")
    with pytest.raises(ValueError, match="`mining` must be one of hard, semi_hard, got 'semihard'."):
        losses.get("triplet", mining="semihard")
    with pytest.raises(ValueError, match="`num_classes` must be .* got None. Pass the number of training"):
        losses.get("proxy_nca", embedding_dim=4)
    with pytest.raises(ValueError, match="`embedding_dim` must be .* got None. Pass the number of dim"):
        losses.get("soft_triple", num_classes=4)


OUT_OF_RANGE = [
    ("contrastive", "margin", 0.0, "> 0"),
    ("contrastive", "margin", float("nan"), "> 0"),
    ("triplet", "margin", -0.1, ">= 0"),
    ("margin", "boundary", 0.0, "> 0"),
    ("margin", "margin", -1.0, ">= 0"),
    ("margin", "learning_rate", 0.0, "> 0"),
    ("lifted_structure", "margin", float("inf"), ">= 0"),
    ("n_pair", "l2_weight", -1.0, ">= 0"),
    ("angular", "n_pair_weight", -1.0, ">= 0"),
    ("angular", "l2_weight", -1.0, ">= 0"),
    ("multi_similarity", "alpha", 0.0, "> 0"),
    ("multi_similarity", "beta", -1.0, "> 0"),
    ("multi_similarity", "base", float("nan"), "finite"),
    ("multi_similarity", "eps", -0.1, ">= 0"),
    ("soft_triple", "centers_per_class", 0, ">= 1"),
    ("soft_triple", "scale", 0.0, "> 0"),
    ("soft_triple", "gamma", 0.0, "> 0"),
    ("soft_triple", "tau", -0.1, ">= 0"),
    ("soft_triple", "margin", -0.1, ">= 0"),
    ("soft_triple", "learning_rate", -0.1, "> 0"),
    ("soft_triple", "num_classes", 0, ">= 1"),
    ("proxy_nca", "embedding_dim", 1.5, ">= 1"),
    ("proxy_nca", "scale", 0.0, "> 0"),
    ("proxy_nca", "learning_rate", float("inf"), "> 0"),
    ("proxy_anchor", "margin", -0.1, ">= 0"),
    ("proxy_anchor", "scale", 0.0, "> 0"),
    ("norm_softmax", "temperature", 0.0, "> 0"),
    ("cos_face", "margin", -0.1, ">= 0"),
    ("cos_face", "scale", float("nan"), "> 0"),
    ("arc_face", "margin", 91.0, "from 0 to 90 degrees"),
    ("arc_face", "margin", float("nan"), "from 0 to 90 degrees"),
    ("arc_face", "scale", 0.0, "> 0"),
    ("sup_con", "temperature", -0.1, "> 0"),
]


@pytest.mark.parametrize(("name", "option", "value", "rule"), OUT_OF_RANGE)
def test_option_out_of_range(name, option, value, rule):
    with pytest.raises(ValueError, match=rf"`{option}` must be .*{rule}.*, got {value}\."):
        losses.get(name, **{**required(name), option: value})


def test_the_choices_of_an_option_are_those_that_its_constructor_declares():
    assert losses.options("triplet")["mining"] == (str, "hard", ("hard", "semi_hard"))
    assert losses.options("contrastive")["mining"].choices == ("hard", "hard_per_query", "all")
    assert losses.options("margin")["boundary"].choices == ()

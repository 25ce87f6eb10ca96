"""What the flag files of the experiments must hold, and how tests read them."""

from absl import flags

from profs_tf import train
from profs_tf.cli import config_flags
from profs_tf.config import Config
from tests.experiments.grid_configs import ROOT

EXPERIMENTS = ROOT / "experiments"

# Data set file -> its name in the figures, values of section 5.2, training classes L, and M = ceil(6 L / 64).
DATA_SETS = {
    "cub": ("CUB-200-2011", "cub200", 1e-5, (1, 2, 4, 8), 100, 10),
    "cars": ("CARS196", "cars196", 1e-5, (1, 2, 4, 8), 98, 10),
    "sop": ("SOP", "sop", 1e-4, (1, 10, 100, 1000), 11318, 1062),
}
# Row file -> table, row, what the loss is built with.
ROWS = {
    "contrastive_baseline": ("1", "Contrastive-Hard", {"margin": 1.0, "mining": "hard"}),
    "contrastive_profs": ("1", "C-PROFS", {"margin": 1.0, "mining": "hard"}),
    "triplet_semi_hard_baseline": ("1", "Triplet-Semi", {"margin": 0.2, "mining": "semi_hard"}),
    "triplet_hard_baseline": ("1", "Triplet-Hard", {"margin": 0.2, "mining": "hard"}),
    "triplet_hard_profs": ("1", "T-PROFS", {"margin": 0.2, "mining": "hard"}),
    "lifted_structure_baseline": ("1", "Lifted", {"margin": 1.0}),
    "lifted_structure_profs": ("1", "L-PROFS", {"margin": 1.0}),
    "n_pair_baseline": ("1", "N-pair", {"l2_weight": 0.002}),
    "n_pair_profs": ("1", "N-PROFS", {"l2_weight": 0.002}),
    "angular_baseline": ("1", "Angular", {"angle": 45.0, "n_pair_weight": 0.0}),
    "angular_profs": ("1", "A-PROFS", {"angle": 45.0, "n_pair_weight": 0.0}),
    "margin_baseline": ("1", "Margin-Hard", {"boundary": 1.2, "margin": 0.2, "mining": "hard"}),
    "margin_profs": ("1", "M-PROFS", {"boundary": 1.2, "margin": 0.2, "mining": "hard"}),
    "multi_similarity_baseline": ("1", "MS", {"alpha": 2.0, "beta": 50.0, "base": 0.5, "eps": 0.1}),
    "multi_similarity_profs": ("1", "MS-PROFS", {"alpha": 2.0, "beta": 50.0, "base": 0.5, "eps": 0.1}),
    "margin_resnet50_baseline": (
        "2",
        "Margin",
        {"boundary": 1.2, "margin": 0.2, "mining": "distance_weighted"},
    ),
    "margin_resnet50_profs": (
        "2",
        "M-PROFS",
        {"boundary": 1.2, "margin": 0.2, "mining": "distance_weighted"},
    ),
    "soft_triple_baseline": (
        "2",
        "SoftTriple",
        {"centers_per_class": 10, "scale": 20.0, "gamma": 0.1, "tau": 0.2, "margin": 0.01},
    ),
    "soft_triple_profs": (
        "2",
        "SoftTriple-PROFS",
        {"centers_per_class": 10, "scale": 20.0, "gamma": 0.1, "tau": 0.2, "margin": 0.01},
    ),
    "proxy_nca_baseline": ("2", "Proxy-NCA", {"scale": 3.0, "positive_in_denominator": False}),
}
# The same rows with hard negative class mining.
CLASS_MINING_SUFFIX = "-HNCM"
ROWS.update(
    {
        f"{row}_hncm": (table, name + CLASS_MINING_SUFFIX, options)
        for row, (table, name, options) in tuple(ROWS.items())
        if row.endswith("_profs")
    }
)


def row_file(row):
    return f"experiments/losses/{row}.flags"


def parse(arguments):
    values = flags.FlagValues()
    train.define_flags(values)
    assert values(["train", *arguments])[1:] == []
    return Config(**config_flags.given(values))


def parse_files(*files):
    return parse([f"--flagfile={file}" for file in files])


def parse_row(row, data_set="cub"):
    return parse_files(f"experiments/{data_set}.flags", row_file(row))

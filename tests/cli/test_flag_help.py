import re

from absl import flags

from profs_tf import evaluate, train
from profs_tf.cli.flag_help import help_text
from profs_tf.cli.flag_types import define_flag


def groups_of(define_flags):
    """Returns the flags that the help lists by the titles of their groups."""
    values = flags.FlagValues()
    define_flags(values)
    groups = {}
    for line in help_text("usage", values).splitlines():
        if re.match(r"\S.*:$", line):
            flags_of_group = groups.setdefault(line[:-1], [])
        elif line.startswith("  --"):
            flags_of_group.append(re.match(r"  --(?:\[no\])?(\w+)", line).group(1))
    return groups


def test_train_lists_the_ten_flags_most_needed_first_and_each_flag_once():
    groups = groups_of(train.define_flags)
    assert list(groups)[:3] == ["Most needed", "Data", "Method (PROFS)"]
    needed = groups["Most needed"]
    assert len(needed) == 10
    assert {"dataset", "output_dir", "backbone", "pretrained", "loss", "resume"} <= set(needed)
    listed = [name for names in groups.values() for name in names]
    assert len(listed) == len(set(listed))
    assert "learning_rate_schedule" in groups["Learning rate"]
    assert "margin_boundary" in groups["Options of losses"]


def test_other_commands_part_the_data_from_their_own_flags():
    groups = groups_of(evaluate.define_flags)
    assert "dataset" in groups["Data"]
    assert {"embedder", "ks"} <= set(groups["Flags"])


def test_shows_choices_defaults_and_switches():
    values = flags.FlagValues()
    define_flag(values, "mode", str, "a", "Mode.", ("a", "b"), "Modes")
    define_flag(values, "on", bool, True, "Whether.")
    define_flag(values, "k", int, None, "Number.")
    text = help_text("name: use", values)
    assert text.startswith("name: use\n\nModes:\n  --mode=a|b\n      Mode. Default: a.\n\nFlags:\n  --[no]on")
    assert "  --k=INT\n      Number.\n" in text


def test_lists_show_how_they_are_written():
    values = flags.FlagValues()
    define_flag(values, "query", list, (), "Files.")
    define_flag(values, "ks", tuple, (1, 2), "Numbers.")
    text = help_text("name: use", values)
    assert "  --query=TEXT\n      Files. May be repeated.\n  --ks=TEXT,TEXT,...\n" in text
    assert "      Numbers. Separated by commas. Default: 1,2.\n" in text

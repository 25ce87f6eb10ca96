"""The check_data command: `python -m profs_tf.check_data --dataset=folder:/path/to/pictures`."""

import sys

from absl import flags

from profs_tf.cli.command import FAILED, run
from profs_tf.cli.config_flags import define_one
from profs_tf.config import Config
from profs_tf.datasets.audit import duplicates, examine, single_image_classes, summary
from profs_tf.runs.factory import load_data
from profs_tf.visual.contact_sheet import draw_contact_sheet

USAGE = """check_data: read every picture of a data set and report what training would stumble over.

  python -m profs_tf.check_data --dataset=folder:/path/to/pictures
  python -m profs_tf.check_data --dataset=sop --data_dir=/data/Stanford_Online_Products
  python -m profs_tf.check_data --dataset=emoji --contact_sheet=emoji.png --seed=1

Lists files that cannot be read, classes with one image, and files that are equal to the byte, those that
are on both sides of the split first. Exit code: 0 if every picture can be read, 1 if not, 2 for bad use."""

_PARTS = ("train", "test")


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    for name, kind, default, text in (
        ("dataset", str, Config.dataset, "Data set, as for the train command."),
        ("data_dir", str, None, "Folder that holds the data set as its archive unpacks."),
        ("train_classes", str, None, "Which classes train, as for the train command."),
        ("allow_partial_data", bool, False, "Whether an incomplete copy of a data set is taken."),
        ("contact_sheet", str, None, "PNG file to draw random images of random classes into."),
        ("sheet_classes", int, 12, "Classes on the contact sheet."),
        ("seed", int, 0, "Seed of the contact sheet's draws."),
    ):
        define_one(values, name, kind, default, text)


def main(values: flags.FlagValues) -> None:
    """Checks by the flags."""
    if values.sheet_classes < 1:
        raise ValueError(f"`sheet_classes` must be >= 1, got {values.sheet_classes}.")
    if values.seed < 0:
        raise ValueError(f"`seed` must be >= 0, got {values.seed}.")
    config = Config(
        dataset=values.dataset,
        data_dir=values.data_dir,
        train_classes=values.train_classes,
        allow_partial_data=values.allow_partial_data,
    )
    parts = dict(zip(_PARTS, load_data(config)))
    findings = {part: examine(image_list, progress=True) for part, image_list in parts.items()}
    for part, image_list in parts.items():
        print(f"{part}: {len(image_list):,} images of {image_list.num_classes:,} classes")
        print(f"  {summary(findings[part])}")
        _print_list("classes with one image", single_image_classes(image_list))
    groups = duplicates(findings)
    _print_list("groups of exact duplicates", [_group_text(group, parts, findings) for group in groups])
    problems = list(
        dict.fromkeys(
            finding.problem for part in findings.values() for finding in part if finding.problem is not None
        )
    )
    _print_list("unreadable files", problems)
    if values.contact_sheet:
        draw_contact_sheet(
            list(parts.values()), values.contact_sheet, num_classes=values.sheet_classes, seed=values.seed
        )
        print(f"contact sheet: {values.contact_sheet}")
    if problems:
        sys.exit(FAILED)


def _print_list(title: str, lines: list) -> None:
    print(f"  {title}: {len(lines):,}")
    for line in lines:
        print(f"    {line}")


def _group_text(group: list, parts: dict, findings: dict) -> str:
    across = "train and test: " if len({part for part, _ in group}) > 1 else ""
    members = [
        f"{findings[part][index].name} ({part}, {parts[part].class_names[parts[part].labels[index]]})"
        for part, index in group
    ]
    return across + " = ".join(members)


if __name__ == "__main__":
    run(main, define_flags, USAGE)

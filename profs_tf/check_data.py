"""The check_data command: `python -m profs_tf.check_data --dataset=folder:/path/to/pictures`."""

import sys

from absl import flags

from profs_tf.cli import data_flags
from profs_tf.cli.command import run
from profs_tf.cli.exit_codes import FAILURE
from profs_tf.cli.flag_types import check_values, define_flag, refuse_without
from profs_tf.config import Config
from profs_tf.datasets.audit import duplicates, examine, single_image_classes, summary
from profs_tf.datasets.class_split import shared_classes
from profs_tf.inputs.decoding import reading_problem
from profs_tf.runs.factory import load_data
from profs_tf.visual.contact_sheet import draw_contact_sheet

USAGE = """check_data: read every image of a data set and report what would spoil training.

  python -m profs_tf.check_data --dataset=folder:/path/to/pictures
  python -m profs_tf.check_data --dataset=sop --data_dir=/data/Stanford_Online_Products
  python -m profs_tf.check_data --dataset=emoji --contact_sheet=emoji.png --seed=1

Lists files that cannot be read, classes with a single image, classes in both splits, and files that are equal
byte for byte, those across the splits first. Exit code: 0 if every image can be read, 1 if not, 2 for a usage
error."""


def define_flags(values: flags.FlagValues) -> None:
    """Defines the flags of this command."""
    data_flags.define(values)
    for name, kind, default, text in (
        ("contact_sheet", str, None, "PNG file to draw random images of random classes into."),
        ("sheet_classes", int, 12, "Classes on the contact sheet."),
        ("seed", int, 0, "Seed of the contact sheet's draws."),
    ):
        define_flag(values, name, kind, default, text)


def main(values: flags.FlagValues) -> None:
    """Reads the data set that the flags name, and reports on it."""
    check_values(values, least={"sheet_classes": 1, "seed": 0}, files=("contact_sheet",))
    if not values.contact_sheet:
        refuse_without(values, "contact_sheet", "sheet_classes", "seed")
    config = Config(**data_flags.given(values))
    tested = "test" if config.validation_classes is None else "validation"
    splits = dict(zip(("train", tested), load_data(config)))
    findings = {
        split: examine(image_list, reading_problem, progress=True) for split, image_list in splits.items()
    }
    for split, image_list in splits.items():
        print(f"{split}: {len(image_list):,} images of {image_list.num_classes:,} classes")
        print(f"  {summary(findings[split])}")
        _print_list("classes with one image", single_image_classes(image_list))
    _print_list("classes in both splits", list(shared_classes(*splits.values())))
    groups = duplicates(findings)
    _print_list("groups of exact duplicates", [_group_text(group, splits, findings) for group in groups])
    problems = list(
        dict.fromkeys(
            finding.problem for found in findings.values() for finding in found if finding.problem is not None
        )
    )
    _print_list("unreadable files", problems)
    if values.contact_sheet:
        draw_contact_sheet(
            list(splits.values()), values.contact_sheet, num_classes=values.sheet_classes, seed=values.seed
        )
        print(f"contact sheet: {values.contact_sheet}")
    if problems:
        sys.exit(FAILURE)


def _print_list(title: str, lines: list) -> None:
    print(f"  {title}: {len(lines):,}")
    for line in lines:
        print(f"    {line}")


def _group_text(group: list, splits: dict, findings: dict) -> str:
    across = f"{' and '.join(splits)}: " if len({split for split, _ in group}) > 1 else ""
    members = [
        f"{findings[split][index].name} ({split}, {splits[split].class_names[splits[split].labels[index]]})"
        for split, index in group
    ]
    return across + " = ".join(members)


if __name__ == "__main__":
    run(main, define_flags, USAGE)

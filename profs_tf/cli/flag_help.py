"""What `--help` prints: the usage text and every flag."""

import textwrap

from absl import flags


def help_text(usage: str, values: flags.FlagValues) -> str:
    """Returns the usage followed by all flags, in the order of their definition, by groups."""
    lines = [usage.strip()]
    for group, group_flags in values.flags_by_module_dict().items():
        # absl's own flags, such as --undefok, are left out.
        shown = [_entry(flag) for flag in group_flags if not flag.help.startswith("(special)")]
        lines += ["", f"{group}:", *shown] if shown else []
    lines.append("  --flagfile=FILE\n      Read flags from a file, one a line; files may name others.")
    return "\n".join(lines)


def _entry(flag: flags.Flag) -> str:
    name = f"  --[no]{flag.name}" if flag.boolean else f"  --{flag.name}={_placeholder(flag)}"
    default = (
        "" if flag.default in (None, "", []) else f" Default: {str(flag.default_as_str).strip(chr(39))}."
    )
    indent = " " * 6
    # absl's remark on flags that may be repeated; ours is part of the text.
    written = flag.help.split(";\n", 1)[0]
    text = textwrap.fill(f"{written}{default}", 100, initial_indent=indent, subsequent_indent=indent)
    return f"{name}\n{text}"


def _placeholder(flag: flags.Flag) -> str:
    choices = getattr(flag.parser, "enum_values", None)
    if choices:
        return "|".join(choices)
    if isinstance(flag.parser, flags.ListParser):
        return "TEXT,TEXT,..."
    return {"int": "INT", "float": "FLOAT"}.get(flag.flag_type(), "TEXT")

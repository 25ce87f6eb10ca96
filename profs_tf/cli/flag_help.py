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
    written = flag.default_as_str
    default = "" if written is None or flag.default == "" else f" Default: {written.strip(chr(39))}."
    indent = " " * 6
    text = textwrap.fill(f"{flag.help}{default}", 100, initial_indent=indent, subsequent_indent=indent)
    return f"{name}\n{text}"


def _placeholder(flag: flags.Flag) -> str:
    choices = getattr(flag.parser, "enum_values", None)
    return "|".join(choices) if choices else flag.flag_type().upper().replace("STRING", "TEXT")

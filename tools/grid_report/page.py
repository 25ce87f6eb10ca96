"""The report as one HTML page that loads nothing, and as Markdown."""

from __future__ import annotations

import base64
from html import escape

from grid_report.tables import NOT_RUN, Table

_STYLE = """
:root { color-scheme: light dark;
  --ink: #222; --paper: #fff; --line: #d5d8dc; --faint: #6b7077; --band: #f4f5f7; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --paper: #16181c; --line: #363a41; --faint: #858b94; --band: #1f2227; }
}
body { margin: 0 auto; padding: 1rem; max-width: 75rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem; }
th, td { padding: .3rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
tbody tr:hover td { background: var(--band); }
td.absent, p.note { color: var(--faint); }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
img { max-width: 100%; height: auto; } figure { margin: 0; }
@media (max-width: 30rem) { td:first-child { min-width: 6rem; max-width: 8rem; white-space: normal; } }
summary { cursor: pointer; font-weight: 600; padding: .4rem 0; }
@media print { .scroll { overflow: visible; } }
"""


def markdown_table(table: Table) -> str:
    """Returns the table alone as Markdown."""
    lines = [table.header, ["---", *["---:"] * (len(table.header) - 1)], *table.rows]
    return "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines)


class Page:
    """A report that is built part by part, as HTML and as Markdown.

    Attributes:
        pictures: File name to PNG, of the light theme.
    """

    def __init__(self, title: str, introduction: str):
        """Starts an empty page."""
        self.pictures = {}
        self._title = title
        self._html = [f"<h1>{escape(title)}</h1>", f"<p>{escape(introduction)}</p>"]
        self._markdown = [f"# {title}", introduction]

    def add_table(self, table: Table) -> None:
        """Adds a table; HTML collapses a table without results."""
        note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
        body = f"{note}{_html_table(table)}"
        if table.is_run:
            self._html.append(f"<section><h2>{escape(table.title)}</h2>{body}</section>")
        else:
            summary = f"{escape(table.title)} ({NOT_RUN})"
            self._html.append(f"<details><summary>{summary}</summary>{body}</details>")
        self._markdown += [f"## {table.title}", *([table.note] if table.note else []), markdown_table(table)]

    def add_pictures(self, title: str, pictures: list) -> None:
        """Adds pictures, side by side if the page is wide enough.

        Args:
            title: The heading.
            pictures: (file name without suffix, alternative text, light PNG, dark PNG), or None if not run.
        """
        shown = [picture for picture in pictures if picture]
        self._markdown.append(f"## {title}")
        if not shown:
            self._html.append(f'<section><h2>{escape(title)}</h2><p class="note">{NOT_RUN}</p></section>')
            self._markdown.append(NOT_RUN)
            return
        figures = "".join(_html_picture(*picture[1:]) for picture in shown)
        self._html.append(f'<section><h2>{escape(title)}</h2><div class="pictures">{figures}</div></section>')
        for name, text, light, _ in shown:
            self.pictures[f"{name}.png"] = light
            self._markdown.append(f"![{text}](pictures/{name}.png)")

    def html(self) -> str:
        """Returns the page, which is also well-formed XML."""
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>'
            '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
            f"<title>{escape(self._title)}</title><style>{_STYLE}</style></head>\n<body>\n"
            + "\n".join(self._html)
            + "\n</body></html>\n"
        )

    def markdown(self) -> str:
        """Returns the same as Markdown; pictures are files in the folder `pictures`."""
        return "\n\n".join(self._markdown) + "\n"


def _html_table(table: Table) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in table.header)
    rows = "".join(f"<tr>{''.join(_html_cell(text) for text in row)}</tr>\n" for row in table.rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>'


def _html_cell(text: str) -> str:
    return f'<td class="absent">{NOT_RUN}</td>' if text == NOT_RUN else f"<td>{escape(text)}</td>"


def _html_picture(text: str, light: bytes, dark: bytes) -> str:
    light_uri, dark_uri = (
        f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}" for png in (light, dark)
    )
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark_uri}"/>'
        f'<img alt="{escape(text)}" src="{light_uri}"/></picture></figure>'
    )

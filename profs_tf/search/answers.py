"""What a search has found, as JSON, as text and as labels of pictures."""

from __future__ import annotations

import json

from profs_tf.search.searcher import Neighbor


def strip_label(item: Neighbor) -> str:
    """Returns a neighbor's distance, and its class below it."""
    name = "" if item.class_name is None else f"\n{item.class_name}"
    return f"{item.distance:.4f}{name}"


def as_json(names: list[str], found: list[list[Neighbor]], distance: str) -> str:
    """Returns queries and their neighbors as JSON."""
    queries = [
        {
            "query": name,
            "neighbors": [
                {
                    "rank": rank,
                    "name": item.name,
                    "position": item.position,
                    "distance": item.distance,
                    **({} if item.class_name is None else {"class": item.class_name}),
                }
                for rank, item in enumerate(row, start=1)
            ],
        }
        for name, row in zip(names, found)
    ]
    return json.dumps({"distance": distance, "queries": queries}, indent=2, ensure_ascii=False)


def as_table(names: list[str], found: list[list[Neighbor]]) -> str:
    """Returns queries, each with its neighbors below it, as lines of text."""
    lines = []
    for name, row in zip(names, found):
        lines.append(_on_one_line(name))
        lines += [
            f"{rank:6}  {item.distance:9.4f}  {_on_one_line(item.name)}"
            for rank, item in enumerate(row, start=1)
        ]
    return "\n".join(lines)


def _on_one_line(name: str) -> str:
    """Returns a name, quoted if it has line breaks or other characters that do not print."""
    return name if name.isprintable() else repr(name)

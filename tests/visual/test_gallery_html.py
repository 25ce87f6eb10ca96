import base64
import html.parser
import io
import json
import re

import numpy as np
import pytest
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.visual.gallery_content import find_neighborhoods
from profs_tf.visual.gallery_html import gallery_page

EVIL = (
    "<script>window.hacked=1</script>",
    "</script><img src=x onerror=alert(1)>",
    '"&quot;{{script}}\u2028',
)


class Parts(html.parser.HTMLParser):
    """What an HTML parser sees of a page: its tags, and the contents of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        inside = self.cdata_elem == "script"
        (self.scripts if inside else self.text).append(data)


@pytest.fixture(scope="module")
def page():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 4)
    images = ImageList(random.integers(0, 256, (12, 40, 30, 3), np.uint8), labels, EVIL)
    embeddings = np.eye(3)[labels] + 0.4 * random.standard_normal((12, 3))
    found = find_neighborhoods(embeddings, labels, 3)
    queries = found.worst_first(np.array([0, 5, 11]))
    text = gallery_page(
        images, found, queries, np.arange(4), np.zeros([4, 2]), title=f"My {EVIL[1]}", method="pca"
    )
    return text, images, found, queries


def data_of(text):
    return json.loads(Parts(text).scripts[0])


def test_names_stay_text(page):
    text, images, _, _ = page
    parts = Parts(text)
    assert [tag for tag, _ in parts.tags].count("script") == 2
    assert not [tag for tag, _ in parts.tags if tag == "img"]
    assert len(parts.scripts) == 2
    assert data_of(text)["classes"] == list(images.class_names)
    for name in EVIL:
        assert name not in text
    assert f"My {EVIL[1]}" in parts.text
    # What runs is the package's own script, with nothing filled into it.
    assert "{{" not in parts.scripts[1]
    assert text.isascii()


def test_loads_nothing(page):
    parts = Parts(page[0])
    policy = next(attributes for tag, attributes in parts.tags if "http-equiv" in attributes)
    assert policy["content"] == (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    )
    assert not [attributes for _, attributes in parts.tags if {"src", "href"} & set(attributes)]
    assert "http:" not in page[0]
    assert "https:" not in page[0]
    assert "innerHTML" not in page[0]


def test_shows_what_was_found(page):
    text, images, found, queries = page
    data = data_of(text)
    assert len({item["name"] for item in data["images"]}) == len(data["images"])
    names = [item["name"] for item in data["images"]]
    for query, shown in zip(queries, data["queries"]):
        assert names[shown["image"]] == f"image {query}"
        assert [names[image] for image, _ in shown["neighbors"]] == [
            f"image {i}" for i in found.indices[query]
        ]
        np.testing.assert_allclose(
            [distance for _, distance in shown["neighbors"]], found.distances[query], atol=1e-6
        )
    for number, image in enumerate(data["images"]):
        index = int(image["name"].split()[1])
        assert image["class"] == images.labels[index]
        prefix, encoded = data["images"][number]["uri"].split(",")
        assert prefix == "data:image/jpeg;base64"
        with Image.open(io.BytesIO(base64.b64decode(encoded))) as picture:
            assert picture.size == (30, 40)
    recall = found.class_recall()
    assert data["class_notes"] == [f"4 images, Recall@1 {100 * recall[label]:.0f} %" for label in range(3)]
    assert sum(item["count"] for item in data["confusions"]) == int(
        (images.labels[found.indices] != images.labels[:, None]).sum()
    )
    assert re.search(rf"Recall@1 {100 * found.retrieval.recall_at([1])[1]:.2f} %", text)


def test_can_be_used_without_seeing_or_a_mouse(page):
    tags = Parts(page[0]).tags
    ids = {attributes["id"]: tag for tag, attributes in tags if "id" in attributes}
    assert ids["name"] == "input"
    assert ids["kind"] == "select"
    assert {"lang": "en"} in [attributes for tag, attributes in tags if tag == "html"]
    canvas = next(attributes for tag, attributes in tags if tag == "canvas")
    assert canvas["tabindex"] == "0"
    assert canvas["aria-label"]
    for _, attributes in tags:
        for reference in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(reference, "name") in ids


def test_files_are_shown_by_name_and_scaled_down(tmp_path):
    paths = []
    for number in range(6):
        paths.append(str(tmp_path / f"{number}<b>.png"))
        Image.new("RGB", (300, 150), (40 * number, 0, 0)).save(paths[-1])
    images = ImageList(paths, np.array([0, 0, 1, 1, 2, 2]), ("a", "b", "c"))
    found = find_neighborhoods(np.arange(12.0).reshape(6, 2), images.labels, 2)
    (tmp_path / "0<b>.png").write_bytes(b"broken since")
    text = gallery_page(
        images, found, np.array([0, 3]), np.arange(3), np.zeros([3, 2]), title="t", method="tsne"
    )
    data = data_of(text)
    assert data["images"][0]["name"] == "0<b>.png"
    sizes = [
        Image.open(io.BytesIO(base64.b64decode(item["uri"].split(",")[1]))).size for item in data["images"]
    ]
    assert sizes[0] == (96, 96)
    assert set(sizes[1:]) == {(96, 48)}

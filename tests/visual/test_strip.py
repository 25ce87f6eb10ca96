import numpy as np
from PIL import Image

from profs_tf.visual.strip import draw_strip


def plain(color):
    return np.full([30, 30, 3], color, np.uint8)


def test_draws_a_row_a_query_with_labels(tmp_path):
    rows = [
        [(plain([255, 0, 0]), "query"), (plain([0, 255, 0]), "0.1"), (plain([0, 0, 255]), "0.2")],
        [(plain([9, 9, 9]), "a/very/long/path/to/a/query.png"), (str(tmp_path / "missing.png"), "0.3")],
    ]
    draw_strip(rows, tmp_path / "strip.png")
    strip = np.asarray(Image.open(tmp_path / "strip.png"))
    assert strip.shape[:2] == (6 + 2 * 137, 6 + 3 * 118 + 12)
    for top, left, color in (
        (60, 60, [255, 0, 0]),
        (60, 200, [0, 255, 0]),
        (60, 310, [0, 0, 255]),
        (200, 60, [9, 9, 9]),
        (198, 192, [255, 0, 0]),  # the cross of what cannot be read
    ):
        assert strip[top, left].tolist() == color, (top, left)
    labels = strip[120:134, 6:118]
    assert (labels < 100).any()
    assert (strip[120:134, 124:130] == 255).all()


def test_a_label_of_two_lines_makes_room_for_both(tmp_path):
    heights = {}
    for label in ("0.1", "0.1\na class with a long name"):
        draw_strip([[(plain([255, 0, 0]), "query"), (plain([0, 255, 0]), label)]], tmp_path / "strip.png")
        strip = np.asarray(Image.open(tmp_path / "strip.png"))
        heights[label], second_line = len(strip), strip[132:145, 136:248]
    assert heights["0.1\na class with a long name"] == heights["0.1"] + 13
    assert (second_line < 100).any()


def test_writes_to_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    draw_strip([[(np.zeros([4, 4, 3], np.uint8), "a")]], "~/strip.png")
    assert (tmp_path / "strip.png").exists()

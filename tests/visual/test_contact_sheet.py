import numpy as np
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.visual.contact_sheet import draw_contact_sheet

# Geometry of a row: gap, title, thumbnail.
GAP, TITLE, SIZE = 6, 22, 96


def split(name, classes, images_per_class, first_color):
    """Images in the plain color of their class."""
    labels = np.repeat(np.arange(classes), images_per_class)
    images = np.zeros([len(labels), 10, 10, 3], np.uint8)
    images[..., 0] = (first_color + 20 * labels)[:, None, None]
    return ImageList(images, labels, tuple(f"{name} {label}" for label in range(classes)), name)


def thumbnail_centers(sheet, rows, columns):
    left = GAP + SIZE // 2 + np.arange(columns) * (SIZE + GAP)
    top = GAP + TITLE + SIZE // 2 + np.arange(rows) * (TITLE + SIZE + GAP)
    return np.asarray(sheet)[top[:, None], left[None, :]]


def test_draws_one_class_in_each_row(tmp_path):
    draw_contact_sheet([split("train", 2, 3, 10), split("test", 2, 5, 150)], tmp_path / "sheet.png")
    sheet = Image.open(tmp_path / "sheet.png")
    assert sheet.size == (GAP + 8 * (SIZE + GAP), GAP + 4 * (TITLE + SIZE + GAP))
    centers = thumbnail_centers(sheet, 4, 8)
    for row, (red, images) in enumerate(((10, 3), (30, 3), (150, 5), (170, 5))):
        np.testing.assert_array_equal(centers[row, :images], [[red, 0, 0]] * images)
        assert (centers[row, images:] == 255).all()


def test_draws_random_classes_and_images_reproducibly(tmp_path):
    images = split("test", 12, 4, 0)
    sheets = []
    for number, seed in enumerate((0, 0, 1)):
        path = tmp_path / f"{number}.png"
        draw_contact_sheet([images], path, num_classes=5, seed=seed)
        sheets.append(path.read_bytes())
    assert sheets[0] == sheets[1] != sheets[2]
    reds = thumbnail_centers(Image.open(tmp_path / "0.png"), 5, 8)[:, 0, 0].tolist()
    assert reds == sorted(set(reds))
    assert set(reds) <= set(range(0, 240, 20))


def test_an_unreadable_file_is_a_crossed_square_and_boxes_are_cropped(tmp_path):
    half = np.full([20, 20, 3], [0, 0, 255], np.uint8)
    half[:, 10:] = [0, 255, 0]
    Image.fromarray(half).save(tmp_path / "half.png")
    paths = [str(tmp_path / "half.png"), str(tmp_path / "missing.png")]
    boxes = np.array([[10, 0, 10, 20], [0, 0, 1, 1]], np.float32)
    draw_contact_sheet([ImageList(paths, np.array([0, 1]), ("a", "b"), boxes=boxes)], tmp_path / "sheet.png")
    centers = thumbnail_centers(Image.open(tmp_path / "sheet.png"), 2, 1)
    assert centers[:, 0].tolist() == [[0, 255, 0], [255, 0, 0]]

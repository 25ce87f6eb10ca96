import numpy as np
from PIL import Image

from profs_tf.datasets.image_list import ImageList
from profs_tf.visual.thumbnails import label_font, picture_of, square_thumbnail, thumbnail

PICTURE = np.zeros([20, 40, 3], np.uint8)


def test_keeps_the_proportions_and_enlarges_only_on_request(tmp_path):
    Image.fromarray(PICTURE).save(tmp_path / "a.png")
    for picture in (PICTURE, str(tmp_path / "a.png")):
        assert thumbnail(picture, 10).size == (10, 5)
        assert thumbnail(picture, 80).size == (80, 40)
        assert thumbnail(picture, 80, enlarge=False).size == (40, 20)
    assert thumbnail(np.zeros([1, 500, 3], np.uint8), 10).size == (10, 1)


def test_a_picture_of_a_list_is_cropped_to_its_bounding_box(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, [20, 40, 3], dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    paths, boxes = [str(tmp_path / "a.png"), str(tmp_path / "missing.png")], [[5, 2, 10, 6], [0, 0, 3, 3]]
    in_files = ImageList.from_labels(paths, [0, 1], boxes=np.array(boxes, np.float32))
    in_memory = ImageList.from_labels(pixels[None], [0], boxes=np.array(boxes[:1], np.float32))
    for images in (in_files, in_memory):
        np.testing.assert_array_equal(picture_of(images, 0), pixels[2:8, 5:15])
    assert picture_of(in_files, 1) == paths[1]
    assert picture_of(ImageList.from_labels(paths, [0, 1]), 0) == paths[0]


def test_lies_in_the_middle_of_a_square():
    square = np.asarray(square_thumbnail(PICTURE, 40))
    assert (square[10:30] == 0).all()
    assert (square[:10] == 0xEE).all()
    assert (square[30:] == 0xEE).all()


def test_what_cannot_be_read_shows_as_a_crossed_square(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"x")
    assert thumbnail(tmp_path / "broken.png", 20) is None
    square = np.asarray(square_thumbnail(tmp_path / "broken.png", 20))
    assert square[10, 10].tolist() == [255, 0, 0]


def test_the_font_has_letters_beyond_ascii():
    font = label_font(12)
    assert bytes(font.getmask("ж")) != bytes(font.getmask("ы"))

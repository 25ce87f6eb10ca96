import pytest
import tensorflow as tf

from profs_tf.utils.errors import first_line


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("wrong\nand more"), "ValueError: wrong"),
        (KeyError(), "KeyError"),
        (RuntimeError("\n  late  \n"), "RuntimeError: late"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (
            tf.errors.InvalidArgumentError(None, None, "bad shape\n\t [[{{node MatMul}}]]"),
            "InvalidArgumentError: bad shape",
        ),
    ],
)
def test_type_and_first_line(error, text):
    assert first_line(error) == text

import pytest
from absl import flags

from profs_tf.cli.flag_types import check_values, define_flag, split_at_commas


def parsed(*arguments):
    values = flags.FlagValues()
    define_flag(values, "query", list, (), "Files.")
    define_flag(values, "k", int, 8, "Number.")
    define_flag(values, "strip", str, None, "File.")
    define_flag(values, "output", str, None, "Folder.")
    values(["command", *arguments])
    return values


def test_a_repeated_flag_takes_its_values_verbatim():
    assert parsed("--query=a,b.jpg", "--query=c.jpg").query == ["a,b.jpg", "c.jpg"]
    assert parsed().query == []


def test_only_a_text_that_is_no_path_is_split_at_its_commas(tmp_path):
    comma = tmp_path / "a,b.jpg"
    comma.touch()
    assert split_at_commas([str(comma), "one.jpg,two.jpg", "three.jpg"]) == [
        str(comma),
        "one.jpg",
        "two.jpg",
        "three.jpg",
    ]
    assert split_at_commas(["x,y", "1,2"], is_one={"x,y"}.__contains__) == ["x,y", "1", "2"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--k=0", "`k` must be >= 1, got 0."),
        ("--strip={0}/none/s.png", "`strip` must be a file in a folder that exists, got {0}/none/s.png."),
        ("--strip=/proc/s.png", "`strip` must be writable, got /proc/s.png: "),
        ("--output={0}/file/x", "`output` must be a folder, got the file {0}/file/x: {0}/file is a file."),
        ("--output=/proc/x", "`output` must be writable, got /proc/x: "),
    ],
)
def test_outputs_and_numbers_are_checked_before_the_work(argument, message, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, OSError)) as error:
        check_values(parsed(argument.format(tmp_path)), {"k": 1}, files=("strip",), folders=("output",))
    assert str(error.value).startswith(message.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_outputs_that_can_be_written_pass(tmp_path):
    values = parsed(f"--strip={tmp_path}/s.png", f"--output={tmp_path}/new/folder")
    check_values(values, {"k": 1}, files=("strip",), folders=("output",))
    assert not list(tmp_path.iterdir())

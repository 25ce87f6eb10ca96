import pytest
from absl import flags

from profs_tf.cli.flag_types import check_values, define_flag, illegal_value, read_lines, split_at_commas


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
    (tmp_path / "a,b,c").touch()
    assert split_at_commas([f"one.jpg,{comma},{tmp_path}/a,b,c,two.jpg"]) == [
        "one.jpg",
        str(comma),
        f"{tmp_path}/a,b,c",
        "two.jpg",
    ]
    assert split_at_commas(["x,y", "1,2"], is_one={"x,y"}.__contains__) == ["x,y", "1", "2"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--k=0", "`k` must be >= 1, got 0."),
        ("--strip={0}/none/s.png", "`strip` must be a file in a folder that exists, got {0}/none/s.png."),
        ("--strip=/dev/null", "`strip` must be a regular file, which is replaced, got /dev/null."),
        ("--strip=/proc/s.png", "`strip` must be writable, got /proc/s.png: "),
        ("--output={0}/file/x", "`output` must be a folder, got {0}/file/x: {0}/file is a file."),
        ("--output=/proc/x", "`output` must be writable, got /proc/x: "),
    ],
)
def test_outputs_and_numbers_are_checked_before_the_work(argument, message, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, OSError)) as error:
        check_values(parsed(argument.format(tmp_path)), {"k": 1}, files=("strip",), folders=("output",))
    assert str(error.value).startswith(message.format(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_two_outputs_with_one_path_are_refused(tmp_path):
    values = parsed(f"--strip={tmp_path}/x", f"--output={tmp_path}/./x")
    with pytest.raises(ValueError, match="`output` must be another path than `strip`, got .*x for both"):
        check_values(values, {}, files=("strip",), folders=("output",))


def test_the_home_folder_of_an_output_is_written_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    values = parsed("--strip=~/s.png", "--output=~/new")
    check_values(values, {}, files=("strip",), folders=("output",))
    assert (values.strip, values.output) == (f"{tmp_path}/s.png", f"{tmp_path}/new")


def test_outputs_that_can_be_written_pass(tmp_path):
    values = parsed(f"--strip={tmp_path}/s.png", f"--output={tmp_path}/new/folder")
    check_values(values, {"k": 1}, files=("strip",), folders=("output",))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--k=1.5", "--k must be a whole number, got '1.5'."),
        ("--k=", "--k must be a whole number, got ''."),
        ("--rate=a: b", "--rate must be a number, got 'a'."),
        ("--json=ja", "--json must be true or false, got 'ja'."),
        ("--method=c", "--method must be one of a, b, got 'c'."),
        ('--ks=1,"2', "--ks must be values separated by commas, got '1,\"2'."),
    ],
)
def test_illegal_values_are_refused_with_the_legal_ones(argument, message):
    values = flags.FlagValues()
    for name, kind, default, choices in (
        ("k", int, 8, ()),
        ("rate", float, 0.1, ()),
        ("json", bool, False, ()),
        ("method", str, "a", ("a", "b")),
        ("ks", tuple, (1,), ()),
    ):
        define_flag(values, name, kind, default, "Help.", choices)
    with pytest.raises(flags.IllegalFlagValueError) as error:
        values(["command", argument])
    assert illegal_value(error.value, values) == message


def test_lines_end_at_line_feeds_alone(tmp_path):
    path = tmp_path / "list.txt"
    path.write_bytes("one.jpg\r\n\na\u2028b\x0cc.jpg\ntwo.jpg".encode())
    assert read_lines("images", str(path)) == ["one.jpg", "a\u2028b\x0cc.jpg", "two.jpg"]


def test_files_in_the_home_folder_may_have_commas(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a,b.jpg").touch()
    assert split_at_commas(["~/a,b.jpg,c.jpg"]) == ["~/a,b.jpg", "c.jpg"]

import pytest

from profs_tf import datasets


@pytest.fixture
def write(tmp_path):
    for name in ("a.jpg", "b b.JPG", "ü.png", "d.gif", "e,f.jpg"):
        (tmp_path / name).write_bytes(b"x")

    def write_table(text, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding)
        return path

    return write_table


def file_names(image_list):
    return [path.rsplit("/", 1)[1] for path in image_list.images]


def test_rows_keep_their_order_and_classes_are_sorted(write):
    path = write("label,note,path\nwren,x,ü.png\nrobin,,a.jpg\nrobin,,b b.JPG\n", "utf-8-sig")
    images = datasets.list_csv(path)
    assert file_names(images) == ["ü.png", "a.jpg", "b b.JPG"]
    assert images.class_names == ("robin", "wren")
    assert images.labels.tolist() == [1, 0, 0]
    assert images.boxes is None


def test_without_a_split_column_classes_are_split(write):
    path = write('path,label\nü.png,4\na.jpg,2\nb b.JPG,1\nd.gif,3\n"e,f.jpg",2\n')
    train, test = datasets.load(f"csv:{path}")
    assert (train.class_names, test.class_names) == (("1", "2"), ("3", "4"))
    assert file_names(train) == ["a.jpg", "b b.JPG", "e,f.jpg"]
    train, _ = datasets.from_csv(path, train_classes=["1", "4"])
    assert train.class_names == ("1", "4")


def test_paths_may_be_absolute(write, tmp_path):
    path = write(f'path,label\n"{tmp_path}/a.jpg",1\nd.gif,2\n')
    assert datasets.list_csv(path).images == (f"{tmp_path}/a.jpg", f"{tmp_path}/d.gif")


def test_whole_numbers_are_sorted_by_value_and_codes_stay_apart(write):
    assert datasets.list_csv(write("path,label\na.jpg,10\nd.gif,-9\n")).class_names == ("-9", "10")
    images = datasets.list_csv(write("path,label\na.jpg,007\nd.gif,7\nü.png,10\n"))
    assert images.class_names == ("007", "10", "7")


def test_the_split_column_decides_and_may_share_classes(write):
    path = write("path,label,split\na.jpg,x,train\nb b.JPG,x,test\nü.png,y,test\nd.gif,z,train\n")
    train, test = datasets.from_csv(path)
    assert (file_names(train), train.class_names) == (["a.jpg", "d.gif"], ("x", "z"))
    assert (file_names(test), test.class_names) == (["b b.JPG", "ü.png"], ("x", "y"))
    assert (train.name, test.name) == ("table train", "table test")
    assert datasets.shared_classes(train, test) == ("x",)
    assert len(datasets.list_csv(path)) == 4
    with pytest.raises(ValueError, match="`train_classes` must be left out"):
        datasets.from_csv(path, train_classes=0.5)


def test_queries_and_their_gallery_are_the_test_list(write):
    path = write(
        "path,label,split\na.jpg,x,train\nb b.JPG,y,gallery\nü.png,z,query\nd.gif,w,train\n"
        '"e,f.jpg",z,gallery\n'
    )
    train, test = datasets.from_csv(path)
    assert file_names(train) == ["a.jpg", "d.gif"]
    assert train.is_query is None
    assert file_names(test) == ["b b.JPG", "ü.png", "e,f.jpg"]
    assert test.is_query.tolist() == [False, True, False]
    assert test.num_candidates == 2


def test_boxes_are_kept_with_their_images(write):
    path = write("path,label,x,y,w,h\na.jpg,p,1,2,3,4\na.jpg,q,5,6,7.5,8\n")
    assert datasets.list_csv(path).boxes.tolist() == [[1, 2, 3, 4], [5, 6, 7.5, 8]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file,label\na.jpg,x\n", r"must have the columns path, label.* got \['file', 'label'\]"),
        ("path;label\na.jpg;x\n", r"separated by commas, got \['path;label'\]"),
        ("", r"must have the columns path, label.* got \[\]"),
        ("path,label,x,y\na.jpg,x,1,2\n", "all or none of x, y, w, h"),
        ("path,label,label\na.jpg,x,y\n", "must have each column once, got label more than once"),
        pytest.param(
            f"path,label\na.jpg,{'x' * 200_000}\n",
            "must be a CSV file, got field larger than",
            id="long field",
        ),
        ("path,label\n", "at least one image, got none"),
        ("path,label\na.jpg,x\nd.gif,\n", "Column label of .* must have a value, got none in line 3"),
        ("path,label\na.jpg\n", "Column label of .* must have a value, got none in line 2"),
        ("path,label\na.jpg,x,y\n", r"got \['y'\] too many in line 2.*double quotes"),
        (
            "path,label\na.jpg,x\nnone.jpg,y\nno.jpg,y\n",
            "got 2 missing of 3, the first in line 3: .*none.jpg",
        ),
        (
            "path,label\na.jpg,x\nfolder.jpg,y\n",
            "files that exist, got 1 missing of 2, .* line 3: .*folder.jpg",
        ),
        ("path,label\na.jpg,x\nd.gif,y\na.jpg,y\n", "an image once, .* in lines 2 and 4"),
        ("path,label\na.jpg,x\nd.gif,y\n./a.jpg,x\n", "an image once, .* in lines 2 and 4"),
        ("path,label,split\na.jpg,x,train\nd.gif,y,val\n", "train or test, .* got 'val' in line 3"),
        ("path,label,split\na.jpg,x,train\nd.gif,y,train\n", "each in some row, got no test"),
        (
            "path,label,split\na.jpg,x,train\nd.gif,y,query\n",
            "train or query or gallery, .* got no gallery",
        ),
        (
            "path,label,split\na.jpg,x,test\nd.gif,y,query\n",
            "train or query or gallery, .* got 'test' in line 2",
        ),
        ("path,label,x,y,w,h\na.jpg,x,1,2,3,wide\n", "must be numbers, got .*wide.* in line 2"),
        ("path,label,x,y,w,h\na.jpg,x,1,2,0,4\n", "a width and a height above 0"),
        ("path,label\na.jpg,x\nd.gif,x\n", "at least 4 classes to split, got 1"),
        (
            "path,label,split\na.jpg,x,train\nd.gif,x,test\nü.png,y,test\n",
            "at least 2 training and 2 test classes, got 1 in .*table train",
        ),
    ],
)
def test_unusable_tables_are_refused_with_the_line(write, text, message, tmp_path):
    (tmp_path / "folder.jpg").mkdir()
    path = write(text)
    with pytest.raises(ValueError, match=message):
        datasets.from_csv(path)


def test_another_encoding_and_a_missing_file_are_refused(write, tmp_path):
    path = write("path,label\na.jpg,gr\xf6\xdfe\n", "latin-1")
    with pytest.raises(ValueError, match="must be UTF-8, got .* Save it again"):
        datasets.from_csv(path)
    with pytest.raises(FileNotFoundError, match=r"missing\.csv"):
        datasets.from_csv(tmp_path / "missing.csv")

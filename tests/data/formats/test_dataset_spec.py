"""Meta-Dataset's specs: the three kinds, and files that contradict themselves."""

import json

import pytest

from tasknorm.data.formats.dataset_spec import read_spec, write_spec
from tasknorm.data.spec import Spec, Split
from tasknorm.errors import DataError

PLAIN = Spec(
    "fish",
    ("carp", "pike", "eel"),
    {"train": Split((0, 1), (3, 4)), "valid": Split((), ()), "test": Split((2,), (5,))},
)
ALPHABETS = Spec(
    "letters",
    ("Greek-1", "Greek-2", "Ogham-1"),
    {
        "train": Split((0, 1), (20, 20), ((0, 1),), "bilevel", ("Greek",)),
        "valid": Split((), (), (), "bilevel"),
        "test": Split((2,), (20,), ((0,),), "bilevel", ("Ogham",)),
    },
)


def node(name, *children):
    return {"wn_id": name, "words": name, "children_ids": list(children), "parents_ids": []}


def hierarchy():
    """Two internal nodes in train: one spans 6 leaves, the other 2 of these."""
    leaves = ["a", "b", "c", "d", "e", "f"]
    train = [node("top", "pair", *leaves[2:]), node("pair", "a", "b"), *map(node, leaves)]
    return {
        "name": "tree",
        "split_subgraphs": {"TRAIN": train, "VALID": [], "TEST": []},
        "images_per_class": {
            "TRAIN": dict.fromkeys(leaves, 9) | {"top": 54, "pair": 18},
            "VALID": {},
            "TEST": {},
        },
        "class_names": {str(i): name for i, name in enumerate(leaves)},
        "file_pattern": "{}.tfrecords",
        "__class__": "HierarchicalDatasetSpecification",
    }


@pytest.mark.parametrize("spec", [PLAIN, ALPHABETS])
def test_what_is_written_is_read(tmp_path, spec):
    write_spec(spec, tmp_path)
    assert read_spec(tmp_path) == spec
    assert [path.name for path in tmp_path.iterdir()] == ["dataset_spec.json"]


def test_fields_are_those_of_meta_dataset(tmp_path):
    write_spec(ALPHABETS, tmp_path)
    content = json.loads((tmp_path / "dataset_spec.json").read_text())
    assert content["__class__"] == "BiLevelDatasetSpecification"
    assert content["superclasses_per_split"] == {"TRAIN": 1, "VALID": 0, "TEST": 1}
    assert content["classes_per_superclass"] == {"0": 2, "1": 1}
    assert content["superclass_names"] == {"0": "Greek", "1": "Ogham"}
    assert content["images_per_class"] == {"0": 20, "1": 20, "2": 20}


def test_eligible_nodes_span_five_leaves_or_more(tmp_path):
    path = tmp_path / "dataset_spec.json"
    path.write_text(json.dumps(hierarchy()))
    train = read_spec(path).splits["train"]
    assert train.classes == (0, 1, 2, 3, 4, 5)
    assert train.images == (9,) * 6
    assert train.groups == ((0, 1, 2, 3, 4, 5),)
    assert train.group_names == ("top",)


def drop(key):
    return lambda content: content.pop(key)


def put(value, *keys):
    def change(content):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (drop("class_names"), "there is no entry 'class_names'"),
        (put("Tree", "__class__"), "got 'Tree'"),
        (put("{}_{}.tfrecords", "file_pattern"), "one file per class"),
        (put(-1, "images_per_class", "0"), "got -1"),
        (put(True, "images_per_class", "0"), "got True"),
        (put("many", "images_per_class", "0"), "got 'many'"),
        (put(None, "images_per_class"), "an object of entries, got None"),
        (put([], "class_names"), r"an object of entries, got \[\]"),
        (put(5, "classes_per_split", "TRAIN"), "6 classes, and class_names of 3"),
        (put({"TRAIN": 3}, "classes_per_split"), "there is no entry 'VALID'"),
        (put(4, "images_per_class", "3"), "images_per_class: it speaks of 4 classes"),
    ],
)
def test_plain_spec_that_contradicts_itself(tmp_path, change, message):
    write_spec(PLAIN, tmp_path)
    path = tmp_path / "dataset_spec.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message) as error:
        read_spec(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("z", "split_subgraphs", "TRAIN", 1, "children_ids", 0), "the child 'z' is no node of the graph; add it"),
        (put("top", "split_subgraphs", "TRAIN", 1, "children_ids", 0), "lies below itself"),
        (put("b", "split_subgraphs", "TRAIN", 2, "wn_id"), "two nodes have the wn_id 'b'"),
        (put("h", "class_names", "0"), "the leaf 'a' must be in class_names"),
        (put("g", "class_names", "6"), "6 classes, and class_names of 7"),
        (lambda content: content["images_per_class"]["TRAIN"].pop("a"), "the leaf 'a' must be in class_names"),
    ],
)
def test_graph_that_contradicts_itself(tmp_path, change, message):
    content = hierarchy()
    change(content)
    path = tmp_path / "dataset_spec.json"
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match=message):
        read_spec(path)


def test_a_deep_graph_is_read(tmp_path):
    content = hierarchy()
    chain = [node(f"n{i}", f"n{i + 1}") for i in range(5000)] + [node("n5000", "top")]
    content["split_subgraphs"]["TRAIN"] = chain + content["split_subgraphs"]["TRAIN"]
    (tmp_path / "dataset_spec.json").write_text(json.dumps(content))
    assert len(read_spec(tmp_path).splits["train"].groups) == 5002


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"[" * 100_000, b'{"name": NaN}'])
def test_no_spec(tmp_path, content):
    path = tmp_path / "dataset_spec.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"dataset_spec\.json"):
        read_spec(path)


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        read_spec(tmp_path)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"train": Split((1, 0), (5, 5))}, "number the classes anew"),
        ({"train": Split((0,), (5,))}, "number the classes anew"),
        ({"train": Split((0, 1), (5, 5), ((0, 1),), "dag")}, "got .'dag'"),
        ({"train": Split((0, 1), (5, 5), ((1, 0),), "bilevel")}, "in order"),
    ],
)
def test_specs_that_meta_dataset_cannot_express(tmp_path, splits, message):
    with pytest.raises(DataError, match=message):
        write_spec(Spec("pair", ("a", "b"), splits), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "classes", "groups", "images"),
    [
        ("ilsvrc_2012", (712, 158, 130), (113, 18, 15), (915_249, 199_833, 165_682)),
        ("omniglot", (883, 81, 659), (25, 5, 20), (17_660, 1_620, 13_180)),
        ("aircraft", (70, 15, 15), (0, 0, 0), (7000, 1500, 1500)),
    ],
)
def test_real_specs(data_root, name, classes, groups, images):
    splits = read_spec(data_root / "specs" / f"{name}_dataset_spec.json").splits.values()
    assert tuple(len(split.classes) for split in splits) == classes
    assert tuple(len(split.groups) for split in splits) == groups
    assert tuple(sum(split.images) for split in splits) == images

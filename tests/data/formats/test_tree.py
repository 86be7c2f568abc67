"""Folders and archives, whole, broken and hostile."""

from __future__ import annotations

import gc
import os
import zipfile

import pytest

from tasknorm.data.formats.tree import Tree
from tasknorm.errors import DataError


def archive_of(path, **files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return path


def test_reads_a_folder_and_an_archive_the_same_way(tmp_path):
    (tmp_path / "loose" / "b").mkdir(parents=True)
    (tmp_path / "loose" / "b" / "two").write_bytes(b"2" * 999)
    (tmp_path / "loose" / "a").write_bytes(b"1")
    (tmp_path / "loose" / ".hidden").write_bytes(b"0")
    packed = archive_of(tmp_path / "packed.zip", b__two=b"2" * 999, a=b"1")
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("__MACOSX/x", b"0")
    for tree in (Tree(tmp_path / "loose"), Tree(packed)):
        assert tree.names == ["a", "b/two"]
        assert tree.read("b/two") == b"2" * 999
        assert tree.start("b/two", 3) == b"222"
        assert tree.size("b/two") == 999


def test_an_archive_in_a_cycle_is_closed_in_silence(tmp_path):
    """The collector may end the file before the archive that would close it, which warns; warnings are errors here."""
    packed = archive_of(tmp_path / "packed.zip", a=b"1")
    for _ in range(3):
        tree = Tree(packed)
        cycle = {"tree": tree, "files": [tree._archive().fp]}
        cycle["itself"] = cycle
        gc.collect()
        del tree
        gc.collect()
        del cycle
        gc.collect()
    assert Tree(packed).read("a") == b"1"


def test_its_fingerprint_changes_with_its_files(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    before = Tree(tmp_path).fingerprint()
    assert Tree(tmp_path).fingerprint() == before
    (tmp_path / "a").write_bytes(b"12")
    resized = Tree(tmp_path).fingerprint()
    os.utime(tmp_path / "a", ns=(0, 0))
    touched = Tree(tmp_path).fingerprint()
    (tmp_path / "b").write_bytes(b"")
    assert len({before, resized, touched, Tree(tmp_path).fingerprint()}) == 4


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "..\\evil"])
def test_refuses_paths_that_leave_the_archive(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(DataError, match=r"evil.zip: a member leaves the archive, got .*evil"):
        Tree(tmp_path / "evil.zip")


def test_refuses_an_archive_that_expands_absurdly(tmp_path):
    archive_of(tmp_path / "bomb.zip", zeros=b"\0" * (80 << 20))
    with pytest.raises(DataError, match="may expand to 100 times its size at most"):
        Tree(tmp_path / "bomb.zip")


def test_names_the_member_and_byte_of_a_corrupt_archive(tmp_path):
    path = archive_of(tmp_path / "bad.zip", first=b"1" * 50, second=os.urandom(500))
    content = bytearray(path.read_bytes())
    content[200] ^= 0xFF
    path.write_bytes(content)
    offset = zipfile.ZipFile(path).getinfo("second").header_offset
    with pytest.raises(DataError, match=rf"bad.zip:second at byte {offset}: .*CRC.*fetch it again"):
        Tree(path).read("second")
    assert Tree(path).read("first") == b"1" * 50


def test_a_truncated_archive_says_so(tmp_path):
    path = archive_of(tmp_path / "cut.zip", first=os.urandom(500))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"cut.zip: not a whole zip archive .*, got 300 bytes"):
        Tree(path)


def test_a_missing_path_and_a_missing_file_say_so(tmp_path):
    with pytest.raises(DataError, match="no folder or zip archive of this name"):
        Tree(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"gone.*cannot be read"):
        Tree(tmp_path).read("gone")
    with pytest.raises(DataError, match=r"gone.*cannot be read"):
        Tree(archive_of(tmp_path / "a.zip", a=b"")).start("gone", 1)


def test_a_forked_process_reads_on_its_own(tmp_path):
    path = archive_of(tmp_path / "a.zip", **{f"f{i}": bytes([i]) * 4000 for i in range(50)})
    tree = Tree(path)
    tree.read("f0")
    tree._archives[-1] = tree._archives.pop(os.getpid())  # as in a child: another process opened it
    assert tree.read("f7") == bytes([7]) * 4000
    assert len(tree._archives) == 2

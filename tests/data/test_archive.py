"""Archives: what is well formed is unpacked, everything else is refused and leaves nothing."""

import gzip
import io
import struct
import tarfile
import tracemalloc
import zipfile
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasknorm.data.archive import unpack
from tasknorm.data.errors import DataError

reuses_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
FILES = {"images/a/1.png": b"one" * 500, "images/b/2.png": b"", "labels.csv": b"x" * 512}


def zip_of(files, compression=zipfile.ZIP_DEFLATED):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", compression) as archive:
        archive.writestr("images/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return target.getvalue()


def tar_entry(name, **fields):
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_of(files, *extra, compression="gz"):
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=f"w:{compression}") as archive:
        archive.addfile(tar_entry("images", type=tarfile.DIRTYPE))
        for name, content in files.items():
            archive.addfile(tar_entry(name, size=len(content)), io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return target.getvalue()


def zip_with(attributes):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        info = zipfile.ZipInfo("link")
        info.external_attr = attributes << 16
        archive.writestr(info, "/etc/passwd")
    return target.getvalue()


def stated_size(content, size):
    """A zip whose directory states another size of its one file."""
    where = content.rindex(b"PK\x01\x02")
    return content[: where + 24] + struct.pack("<I", size) + content[where + 28 :]


@pytest.mark.parametrize(
    "content",
    [zip_of(FILES), zip_of(FILES, zipfile.ZIP_STORED), tar_of(FILES)],
    ids=["zip", "stored", "tar.gz"],
)
def test_unpack(tmp_path, content):
    (tmp_path / "archive").write_bytes(content)
    unpack(tmp_path / "archive", tmp_path / "new" / "data")
    found = {
        str(path.relative_to(tmp_path / "new" / "data")): path.read_bytes()
        for path in (tmp_path / "new").rglob("*")
        if path.is_file()
    }
    assert found == FILES


def test_many_entries_with_long_names(tmp_path):
    files = {f"{'deep/' * 30}{i:05}": b"%d" % i for i in range(300)}
    (tmp_path / "archive").write_bytes(tar_of(files))
    unpack(tmp_path / "archive", tmp_path / "data")
    assert sum(path.is_file() for path in (tmp_path / "data").rglob("*")) == 300


def name_of_a_case(value):
    """The message: archives hold the time of day, so their bytes are no name."""
    return value if isinstance(value, str) else "archive"


OUTSIDE = ["../evil", "a/../../evil", "/evil", "..\\evil", "\\evil", "C:\\evil", "C:evil", "a/.."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((zip_of({name: b"x"}), "stays inside its folder") for name in OUTSIDE),
        *((tar_of({name: b"x"}), "stays inside its folder") for name in OUTSIDE),
        (tar_of({}, tar_entry("link", type=tarfile.SYMTYPE, linkname="/etc/passwd")), "'link' is neither"),
        (tar_of({}, tar_entry("link", type=tarfile.LNKTYPE, linkname="x")), "'link' is neither"),
        (tar_of({}, tar_entry("tty", type=tarfile.CHRTYPE)), "'tty' is neither"),
        (tar_of({}, tar_entry("pipe", type=tarfile.FIFOTYPE)), "'pipe' is neither"),
        (zip_with(0o120777), "'link' is neither"),
        (zip_of(FILES, zipfile.ZIP_BZIP2), "neither stored nor deflated"),
        (zip_of({"bomb": bytes(100_000_000)}), "goes beyond"),
        (tar_of({"bomb": bytes(100_000_000)}), "goes beyond"),
        (stated_size(zip_of({"file": b"x" * 1000}), 10), "cannot be unpacked"),
        (stated_size(zip_of({"file": b"x" * 1000}), 2000), "shorter than stated"),
        (zip_of({"a": b"x", "a/b": b"y"}), "cannot be unpacked"),
        (zip_of(FILES)[:-30], "cannot be unpacked"),
        (tar_of(FILES)[:-30], "cannot be unpacked"),
        (gzip.compress(tar_of(FILES, compression="")[:2000]), "cannot be unpacked"),
        (gzip.compress(tar_of(FILES, compression="") + b"more"), "after the end mark"),
        (gzip.compress(b"no tar at all" * 100), "cannot be unpacked"),
        (b"", "neither|starts with b''"),
        (b"\x89PNG and more", "starts with b'.x89PNG'"),
    ],
    ids=name_of_a_case,
)
def test_refused(tmp_path, content, message):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "archive").write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        unpack(tmp_path / "inner" / "archive", tmp_path / "inner" / "data")
    assert "archive" in str(error.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["archive", "inner"]


def test_a_corrupt_header_in_the_middle_is_noticed(tmp_path):
    """`tarfile` alone takes it for the end of the archive."""
    content = bytearray(tar_of(FILES, compression=""))
    content[content.index(b"images/b/2.png")] ^= 1
    (tmp_path / "archive").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match="no end mark"):
        unpack(tmp_path / "archive", tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_huge_header_is_not_held_in_memory(tmp_path):
    header = tar_entry("././@LongLink", type=tarfile.GNUTYPE_LONGNAME, size=1 << 31).tobuf()
    (tmp_path / "archive").write_bytes(gzip.compress(header + bytes(50_000_000)))
    tracemalloc.start()
    with pytest.raises(DataError, match="bytes ahead"):
        unpack(tmp_path / "archive", tmp_path / "data")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_an_existing_folder_stays(tmp_path):
    (tmp_path / "archive").write_bytes(zip_of(FILES))
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match="this one is taken"):
        unpack(tmp_path / "archive", tmp_path / "data")


def test_no_archive(tmp_path):
    with pytest.raises(DataError, match="cannot be unpacked"):
        unpack(tmp_path / "archive", tmp_path / "data")


@reuses_a_folder
@given(st.data(), st.sampled_from([zip_of(FILES), tar_of(FILES), tar_of(FILES, compression="")]))
def test_any_changed_bytes_give_our_error_or_files_inside(tmp_path, data, content):
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(damaged[: data.draw(st.integers(len(damaged) - 50, len(damaged)))])
    folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    (folder / "archive").write_bytes(whole if whole[:2] in (b"PK", b"\x1f\x8b") else gzip.compress(whole))
    with suppress(DataError):
        unpack(folder / "archive", folder / "data")
    assert {path.name for path in folder.iterdir()} <= {"archive", "data"}

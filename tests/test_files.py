"""Files and folders that are whole or absent: locks, leftovers, full disks; with real processes and real kills."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tasknorm.errors import DataError, SettingsError
from tasknorm.files import alone, atomic_file, atomic_folder, is_free, remove_leftovers, write_atomically

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks and signals")


def waiting_in(block: str, path: Path) -> subprocess.Popen[str]:
    """A process that is inside of `with block(path)`."""
    code = f"""
        import sys, time
        from pathlib import Path
        from tasknorm.files import alone, atomic_file, atomic_folder
        with {block}(Path(sys.argv[1])):
            print("inside", flush=True)
            time.sleep(100)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_folder_is_one_processes_until_it_ends_however_it_ends(tmp_path):
    process = waiting_in("alone", tmp_path)
    try:
        assert not is_free(tmp_path)
        with pytest.raises(
            SettingsError, match=rf"another process is writing to this folder \(process {process.pid} on"
        ):
            with alone(tmp_path):
                pass
        assert not is_free(tmp_path)  # a refusal takes nothing from the one that has it
    finally:
        killed(process)
    assert is_free(tmp_path)
    with alone(tmp_path):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


@pytest.mark.parametrize("block", ["atomic_file", "atomic_folder"])
def test_leftovers_of_the_killed_are_removed_and_those_of_the_living_stay(tmp_path, block):
    living, dead = (waiting_in(block, tmp_path / "below" / name) for name in ("living", "dead"))
    try:
        killed(dead)
        others = [
            tmp_path / name for name in ("film.part", ".film.part", f".film.{32 * 'g'}.part", f"x.{32 * 'a'}.part")
        ]
        for other in others:
            other.write_text("somebody's")
        (tmp_path / f".link.{32 * 'a'}.part").symlink_to(others[0])
        assert len(list((tmp_path / "below").iterdir())) == 2
        with alone(tmp_path):
            (left,) = (tmp_path / "below").iterdir()
            assert left.name.startswith(".living.")
        assert all(other.read_text() == "somebody's" for other in others)
        assert (tmp_path / f".link.{32 * 'a'}.part").is_symlink()
    finally:
        killed(living)
    remove_leftovers(tmp_path / "below", "other")
    assert len(list((tmp_path / "below").iterdir())) == 1
    remove_leftovers(tmp_path / "below", "living")
    assert not list((tmp_path / "below").iterdir())


def test_a_folder_replaces_another_whole_or_not_at_all(tmp_path):
    for content in ("old", "new"):
        with atomic_folder(tmp_path / "report", replace=True) as part:
            (part / content).write_text(content)
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "report", replace=True) as part:
        (part / "newest").write_text("")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    assert [path.name for path in (tmp_path / "report").iterdir()] == ["new"]
    with pytest.raises(DataError, match="a new folder needs a free name"), atomic_folder(tmp_path / "report"):
        pass


@pytest.fixture
def _full_disk():
    """Files of this process can have no more than 4,000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.usefixtures("_full_disk")
def test_an_error_of_the_system_names_the_file_and_leaves_the_old_one(tmp_path):
    write_atomically(tmp_path / "file", b"old")
    with pytest.raises(OSError, match=rf"File too large: '{tmp_path / 'file'}'"):
        write_atomically(tmp_path / "file", bytes(5000))
    assert (tmp_path / "file").read_bytes() == b"old"
    with pytest.raises(OSError, match=rf"File too large: '{tmp_path / 'folder'}'"):
        with atomic_folder(tmp_path / "folder") as part, (part / "file").open("wb") as file:
            file.write(bytes(5000))
    assert os.listdir(tmp_path) == ["file"]


def test_files_get_the_usual_permissions(tmp_path):
    write_atomically(tmp_path / "ours", b"")
    (tmp_path / "usual").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "usual").stat().st_mode
    with atomic_file(tmp_path / "ours") as file:
        file.write(b"again")
    assert (tmp_path / "ours").read_bytes() == b"again"

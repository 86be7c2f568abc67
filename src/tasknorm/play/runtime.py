"""onnxruntime-web, with which the page computes in the browser: fetched once by npm, kept in the cache folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from tasknorm.data import cache_folder
from tasknorm.errors import DataError, SettingsError, at, reason
from tasknorm.files import atomic_folder

VERSION = "1.30.0"
ENTRY = "ort.wasm.min.mjs"
FILES = {  # what the page needs of the package's dist folder, and the SHA-256 of each
    ENTRY: "219e6a1fc8a9938268d18efca3c91d310bd2f4a59bbd13744df5b2b7fc6cee3b",
    "ort-wasm-simd-threaded.mjs": "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
}


def runtime_folder() -> Path:
    """Where the runtime is, or would be."""
    return cache_folder() / f"onnxruntime-web-{VERSION}"


def runtime_files() -> dict[str, bytes] | None:
    """The runtime's files by name; None if it was not fetched, or is not whole."""
    try:
        found = {name: (runtime_folder() / name).read_bytes() for name in FILES}
    except OSError:
        return None
    return found if all(hashlib.sha256(found[name]).hexdigest() == FILES[name] for name in FILES) else None


def fetch_runtime() -> Path:
    """Fetch onnxruntime-web by npm, unless it is there.

    Returns:
        The folder that holds it.

    Raises:
        SettingsError: if npm is missing or fails.
        DataError: if the package holds other files than the tested ones.
    """
    folder = runtime_folder()
    if runtime_files() is not None:
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise SettingsError(
            "onnxruntime-web is fetched by npm, and npm was not found; install Node.js, or play without: the page then "
            "computes by Python"
        )
    with TemporaryDirectory() as scratch:
        command = [npm, "pack", f"onnxruntime-web@{VERSION}", "--silent"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        packages = list(Path(scratch).glob("*.tgz"))
        if done.returncode or not packages:
            said = " ".join(done.stderr.split())[-300:]
            raise SettingsError(
                f"npm pack onnxruntime-web@{VERSION} failed: {said or done.returncode}; try again later"
            )
        found = _unpacked(packages[0])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(folder, replace=True) as made:
        for name, content in found.items():
            (made / name).write_bytes(content)
    return folder


def _unpacked(package: Path) -> dict[str, bytes]:
    """The files of the package that the page needs, checked."""
    found = {}
    try:
        with tarfile.open(package) as archive:
            for name, digest in FILES.items():
                member = archive.extractfile(f"package/dist/{name}")
                content = member.read() if member else b""
                if hashlib.sha256(content).hexdigest() != digest:
                    raise DataError(
                        f"{at(name)} of onnxruntime-web {VERSION} is not the file that was tested (another SHA-256); "
                        "fetch it again, and report this if it stays so"
                    )
                found[name] = content
    except (tarfile.TarError, KeyError, OSError) as error:
        raise DataError(f"onnxruntime-web {VERSION} could not be unpacked ({reason(error)}); fetch it again") from None
    return found

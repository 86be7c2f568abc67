"""The files of the page: all that a browser asks for, by path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasknorm.files import atomic_folder
from tasknorm.play.models import Playable
from tasknorm.play.runtime import ENTRY, runtime_files

PAGE = Path(__file__).parent / "page"


def files_of(playable: Playable, *, endpoint: str | None, runtime: dict[str, bytes] | None) -> dict[str, bytes]:
    """Every file of the page, by its path.

    Args:
        playable: the learners.
        endpoint: where a server computes for the page; None for a folder without one.
        runtime: onnxruntime-web's files; None if the server computes.
    """
    files = {path.name: path.read_bytes() for path in sorted(PAGE.iterdir()) if path.is_file()}
    graphs = {f"graphs/{model.norm}.onnx": model.onnx for model in playable.models if model.onnx is not None}
    in_browser = runtime is not None and len(graphs) == len(playable.models)
    about: dict[str, Any] = playable.about()
    about |= {"endpoint": endpoint, "runtime": f"runtime/{ENTRY}" if in_browser else None}
    files["models.json"] = json.dumps(about).encode()
    if in_browser and runtime is not None:
        files |= graphs | {f"runtime/{name}": content for name, content in runtime.items()}
    elif endpoint is None:
        files |= graphs
    return files


def write_static(playable: Playable, folder: Path) -> bool:
    """Write the page as a folder that any web host can serve.

    Returns:
        Whether the folder is complete: without onnxruntime-web (see `fetch_runtime`) it cannot compute.

    Raises:
        DataError: if the folder exists.
    """
    runtime = runtime_files()
    with atomic_folder(folder) as made:
        for name, content in files_of(playable, endpoint=None, runtime=runtime).items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return runtime is not None

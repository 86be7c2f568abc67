"""Speed of sampling: fixed and variable episodes from a cache, and variable episodes straight from JPEG records.

    python benchmarks/sampling.py            prints a table
    python benchmarks/sampling.py --json     prints JSON

Fixed episodes are 5-way 1-shot with 15 targets per class at 28 px. Variable episodes are those of Meta-Dataset at
meta-train, 84 px, from JPEGs of 64 px: 160 classes of 50 images, which this script makes. Episodes come as uint8
batches, before any scaling. The reference is Meta-Dataset's own TensorFlow pipeline on two CPU cores: 12.8 variable
episodes/s, 6000 images/s.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

from tasknorm.data import Cached, Direct, Episodes, FixedSampler, Glyphs, VariableSampler, write_records
from tasknorm.data.sources.record_folder import RecordFolder
from tasknorm.data.sources.source import plain_spec

IMAGES, SIDE = 50, 64


def jpegs(class_id: int) -> Iterator[bytes]:
    """Smooth random pictures: about 2 kB each, like photographs of that size."""
    random = np.random.default_rng(class_id)
    for _ in range(IMAGES):
        coarse = Image.fromarray(random.integers(0, 256, (14, 14, 3), dtype=np.uint8))
        file = io.BytesIO()
        coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(file, "JPEG", quality=75)
        yield file.getvalue()


def records(folder: Path, classes: int) -> RecordFolder:
    """Synthetic records in Meta-Dataset's format."""
    names = {f"class{i:03}": IMAGES for i in range(classes)}
    write_records(folder, plain_spec("synthetic", {"train": names}), ((n, jpegs(i)) for i, n in enumerate(names)))
    return RecordFolder(folder)


def speed(episodes: Episodes, seconds: float) -> dict[str, float]:
    """Episodes and images per second, not counting the first episode."""
    running = iter(episodes)
    next(running)
    start, count, images = time.perf_counter(), 0, 0
    while time.perf_counter() - start < seconds:
        for episode in islice(running, 5):
            count, images = count + 1, images + len(episode.context_y) + len(episode.target_y)
    elapsed = time.perf_counter() - start
    running.close()  # type: ignore[attr-defined]
    return {"episodes_per_second": count / elapsed, "images_per_second": images / elapsed}


def measure(folder: Path, seconds: float, workers: int, classes: int) -> dict[str, dict[str, float]]:
    """The speed of each of the three, by name."""
    glyphs = Cached(Glyphs(), 28, folder=folder / "cache")
    source = records(folder / "records", classes)
    fixed = FixedSampler(glyphs.spec.splits["train"], way=5, shot=1, targets=15)
    variable = VariableSampler(source.spec.splits["train"])
    cached = Cached(source, 84, folder=folder / "cache")
    return {
        "fixed_from_cache": speed(Episodes(glyphs, fixed, workers=1), seconds),
        "variable_from_cache": speed(Episodes(cached, variable, workers=1), seconds),
        "variable_from_records": speed(Episodes(Direct(source, 84), variable, workers=workers, ahead=4), seconds),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each measurement in seconds (default 5)")
    parser.add_argument("--workers", type=int, default=2, help="number of threads that decode records (default 2)")
    parser.add_argument("--classes", type=int, default=160, help="number of classes in the records (default 160)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), arguments.seconds, arguments.workers, arguments.classes)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, value in found.items():
        episodes, images = value["episodes_per_second"], value["images_per_second"]
        print(f"{name:24}{episodes:10.1f} episodes/s{images:12.0f} images/s")


if __name__ == "__main__":
    main()

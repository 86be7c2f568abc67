"""Supervised training of a feature extractor, whose weights then serve every norm (CNAPs, Requeima et al., 2019).

The recipe is that of PyTorch's ImageNet example, which CNAPs' authors name: SGD with momentum, the learning rate
divided by 10 at regular intervals, random crops and flips. The net is trained with CBN and without its classifier kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.checkpoint import Checkpoint, newest_checkpoint, write_checkpoint
from tasknorm.config import SettingsError, in_words, read_config
from tasknorm.data import SCALINGS, Cached, opened
from tasknorm.data.atomic import write_atomically
from tasknorm.data.left_out import keep_left_out, left_out_images, tell_left_out
from tasknorm.data.source import chosen_split
from tasknorm.data.usable import usable
from tasknorm.devices import chosen_device
from tasknorm.meta_step import DivergedError
from tasknorm.nets import NETS
from tasknorm.norms import CBN
from tasknorm.weights import WeightsError, label, read_weights, weights_of, write_weights

CONFIG, EXTRACTOR, RECORD, CHECKPOINTS = "config.json", "extractor.safetensors", "pretraining.json", "checkpoints"
MACHINE = ("epochs", "device")  # may differ when a pretraining goes on
ABOUT = label("pretraining", "CBN")


class Pretraining(BaseModel):
    """Every setting of a pretraining."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    source: str = Field("glyphs", description="A data set's name, or the path of a folder or archive.")
    net: Literal["resnet18", "resnet-small"] = Field("resnet18", description="The feature extractor.")
    image_size: int = Field(84, ge=1, description="Height and width of the images.")
    scale: Literal["unit", "signed", "standard"] = Field("signed", description="To [0, 1], [-1, 1], or standardised.")
    epochs: int = Field(125, ge=1, description="Passes over all images.")
    batch: int = Field(256, ge=2, description="Images of each step.")
    learning_rate: float = Field(0.1, gt=0, description="Of SGD with momentum 0.9.")
    divide_every: int = Field(25, ge=1, description="Epochs between divisions of the learning rate by 10.")
    weight_decay: float = Field(1e-4, ge=0, description="Of all weights.")
    crop: int = Field(8, ge=0, description="Shift images by up to so many pixels, at random.")
    flip: bool = Field(True, description="Mirror images at random; not for characters.")
    skip_bad: bool = Field(False, description="Leave out images that cannot be read, and list them.")
    seed: int = Field(0, ge=0, lt=2**63, description="Of initial weights, order, crops and flips.")
    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="Where to compute.")

    @classmethod
    def of(cls, given: dict[str, object]) -> Pretraining:
        """The given settings.

        Raises:
            SettingsError: names the setting that is unknown or wrong.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError("; ".join(in_words(e, cls) for e in error.errors())) from None


def pretrain(settings: Pretraining, folder: Path, say: Callable[[str], object] = print) -> dict[str, object]:
    """Train an extractor to tell the classes of the train split apart; goes on from its last epoch.

    Leaves `config.json`, `extractor.safetensors`, `pretraining.json` and `checkpoints/` in `folder`.

    Args:
        settings: of the pretraining.
        folder: empty, or with an unfinished pretraining of the same settings; it may go on to more epochs.
        say: is told of each epoch.

    Returns:
        The contents of `pretraining.json`: settings, and the loss and accuracy of each epoch.

    Raises:
        SettingsError: if the pretraining in the folder has other settings; names the first.
        DivergedError: at a loss that is not finite.
    """
    device = chosen_device(settings.device)
    if (folder / CONFIG).exists():
        recorded = read_config(folder / CONFIG)
        for key, value in settings.model_dump().items():
            if key not in MACHINE and recorded.get(key, Pretraining.model_fields[key].default) != value:
                raise SettingsError(
                    f"{key}={value} contradicts the pretraining in {folder}, which has {key}={recorded.get(key)}; "
                    "leave it out or choose another folder"
                )
    source = usable(opened(settings.source)) if settings.skip_bad else opened(settings.source)
    write_atomically(folder / CONFIG, (settings.model_dump_json(indent=2) + "\n").encode())
    left_out = left_out_images(settings.source, source)
    if settings.skip_bad:
        keep_left_out(left_out, folder)
        tell_left_out(left_out)
    images = Cached(source, settings.image_size)
    torch.manual_seed(settings.seed)
    extractor = NETS[settings.net](CBN, image_shape=(source.channels, settings.image_size, settings.image_size))
    classes = len(chosen_split(source.spec, "train").classes)
    model = nn.Sequential(extractor, nn.Linear(int(extractor.features), classes)).to(device).train()  # type: ignore[arg-type]
    decay = settings.weight_decay
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate, momentum=0.9, weight_decay=decay)
    history: list[dict[str, float]] = []
    found = newest_checkpoint(folder / CHECKPOINTS, ABOUT, partial(print, file=sys.stderr))
    if found is not None:
        model.load_state_dict(found.weights)
        optimizer.load_state_dict(found.state["optimizer"])
        history = found.state["history"]
    for epoch in range(len(history), settings.epochs):
        optimizer.param_groups[0]["lr"] = settings.learning_rate * 0.1 ** (epoch // settings.divide_every)
        batches = ((x.to(device), y.to(device)) for x, y in _batches(settings, images, epoch))
        history.append(_epoch(model, optimizer, batches, epoch + 1))
        state = {"optimizer": optimizer.state_dict(), "history": history}
        write_checkpoint(folder / CHECKPOINTS, Checkpoint(epoch + 1, weights_of(model), state), ABOUT)
        loss, accuracy = history[-1].values()
        say(f"epoch {epoch + 1} of {settings.epochs}: loss {loss:.3f}, accuracy {accuracy:.1%}")
    write_weights(folder / EXTRACTOR, weights_of(extractor), ABOUT)
    record: dict[str, object] = {"settings": settings.model_dump(), "epochs": history}
    record |= {"left_out": [asdict(row) for row in left_out]} if settings.skip_bad else {}
    write_atomically(folder / RECORD, (json.dumps(record, indent=2) + "\n").encode())
    return record


def settled_pretraining(given: dict[str, object], folder: Path, resume: bool) -> Pretraining:
    """The given settings, and for the rest those of the pretraining that goes on.

    Raises:
        SettingsError: if the folder is in use and is not to be resumed, or a setting is wrong.
    """
    used = folder.exists() and any(not path.name.startswith(".") for path in folder.iterdir())
    if used and not resume:
        raise SettingsError(f"{folder}: a pretraining needs an empty folder; add --resume or choose another")
    recorded = read_config(folder / CONFIG) if (folder / CONFIG).exists() else {}
    if "learner" in recorded:
        raise SettingsError(f"{folder}: to resume, it must hold a pretraining, and this is a training; choose another")
    return Pretraining.of(recorded | given)


def _epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, batches: Iterator[tuple[Tensor, Tensor]], epoch: int
) -> dict[str, float]:
    """One pass over all images: mean loss and accuracy."""
    losses, correct, images = 0.0, 0, 0
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        if not loss.isfinite():
            raise DivergedError(f"epoch {epoch}: the loss is {loss.item()}; lower the learning rate")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses += loss.item() * len(y)
        correct += int((logits.argmax(1) == y).sum())
        images += len(y)
    return {"loss": losses / images, "accuracy": correct / images}


def _batches(settings: Pretraining, images: Cached, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All images of the train split in random order, scaled, and their labels."""
    split = chosen_split(images.spec, "train")
    numbers = np.concatenate([np.arange(count) for count in split.images])
    labels = np.repeat(np.arange(len(split.classes)), split.images)
    random = torch.Generator().manual_seed(settings.seed + epoch)
    for chosen in torch.randperm(len(labels), generator=random).split(settings.batch):
        rows = chosen.numpy()
        pixels = torch.from_numpy(images.batch(np.array(split.classes)[labels[rows]], numbers[rows]))
        yield (
            SCALINGS[settings.scale](augmented(pixels, settings.crop, settings.flip, random)),
            torch.from_numpy(labels[rows]),
        )


def augmented(pixels: Tensor, crop: int, flip: bool, random: torch.Generator) -> Tensor:
    """Each image `(N, C, H, W)` shifted by up to `crop` pixels, its edge repeated, and mirrored half of the time."""
    count, channels, *sides = pixels.shape
    shifts = torch.randint(-crop, crop + 1, (2, count, 1), generator=random)
    down, right = (
        (torch.arange(side) + shift).clamp(0, side - 1) for side, shift in zip(sides, shifts, strict=True)
    )  # (N, H), (N, W)
    if flip:
        right = torch.where(torch.rand(count, 1, generator=random) < 0.5, right.flip(1), right)
    image, channel = torch.arange(count).view(-1, 1, 1, 1), torch.arange(channels).view(-1, 1, 1)
    return pixels[image, channel, down[:, None, :, None], right[:, None, None, :]]


def load_pretrained(net: nn.Module, path: Path) -> None:
    """Load what `pretrain` wrote into a net with any norm; alpha keeps its initial value, and updates count from 0.

    Raises:
        WeightsError: if the file is damaged, or of another net.
    """
    try:
        weights = read_weights(path, ABOUT)
        counts = [name for name in weights if name.endswith(".num_batches_tracked")]  # BRN's schedule goes by them
        missing, unexpected = net.load_state_dict(weights | dict.fromkeys(counts, torch.tensor(0)), strict=False)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()
        raise WeightsError(f"{path}: these weights are of another net than {type(net).__name__}: {first}") from None
    missing = [name for name in missing if ".alpha_" not in name]
    if missing or unexpected:
        raise WeightsError(
            f"{path}: these weights are of another net than {type(net).__name__}: it lacks {missing[:3]} and has "
            f"{unexpected[:3]} too many; pretrain the same net"
        )

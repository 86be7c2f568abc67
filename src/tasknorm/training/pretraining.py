"""Supervised training of a feature extractor, whose weights then serve every norm (CNAPs, Requeima et al., 2019).

The recipe is that of PyTorch's ImageNet example, which CNAPs' authors name: SGD with momentum, the learning rate
divided by 10 at regular intervals, random crops and flips. The net is trained with CBN; the classifier is discarded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.data import (
    SCALINGS,
    Cached,
    Split,
    chosen_split,
    folded,
    keep_left_out,
    left_out_images,
    opened,
    shifted,
    tell_left_out,
    usable,
)
from tasknorm.errors import DivergedError, WeightsError
from tasknorm.files import write_atomically
from tasknorm.machine import chosen_device
from tasknorm.nets import NETS
from tasknorm.norms import CBN
from tasknorm.progress import Progress
from tasknorm.settings import PretrainSettings
from tasknorm.training.checkpoint import Checkpoint, newest_checkpoint, write_checkpoint
from tasknorm.training.released import is_released, released_extractor
from tasknorm.training.run_folder import RunFolder
from tasknorm.training.weights_file import label, read_weights, weights_of, write_weights

EXTRACTOR = label("pretraining", "CBN")  # what a file of pretrained weights says about itself


def pretrain(settings: PretrainSettings, folder: Path) -> dict[str, object]:
    """Train an extractor to tell the classes of the train split apart; goes on from its last epoch.

    Leaves `extractor.safetensors`, `pretraining.json` and `checkpoints/` in `folder`.

    Args:
        settings: the pretraining's settings.
        folder: empty, or with an unfinished pretraining of the same settings; it may go on to more epochs.

    Returns:
        The contents of `pretraining.json`: settings, and the loss and accuracy of each epoch.

    Raises:
        DivergedError: at a loss that is not finite.
    """
    device = chosen_device(settings.device)
    files = RunFolder(folder)
    source = usable(opened(settings.source)) if settings.skip_bad else opened(settings.source)
    left_out = left_out_images(settings.source, source)
    if settings.skip_bad:
        keep_left_out(left_out, files.left_out)
        tell_left_out(left_out)
    images = Cached(source, settings.image_size, resize=settings.resize)
    torch.manual_seed(settings.seed)
    extractor = NETS[settings.net](CBN, image_shape=(source.channels, settings.image_size, settings.image_size))
    split = chosen_split(folded(source.spec, settings.fold), "train")
    classes = len(split.classes)
    model = nn.Sequential(extractor, nn.Linear(int(extractor.features), classes)).to(device).train()  # type: ignore[arg-type]
    decay = settings.weight_decay
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate, momentum=0.9, weight_decay=decay)
    history: list[dict[str, float]] = []
    found = newest_checkpoint(files.checkpoints, EXTRACTOR, partial(print, file=sys.stderr))
    if found is not None:
        model.load_state_dict(found.weights)
        optimizer.load_state_dict(found.state["optimizer"])
        history = found.state["history"]
    size = sum(split.images)
    with Progress("pretraining", settings.epochs * size, "images", done=len(history) * size) as progress:
        for epoch in range(len(history), settings.epochs):
            optimizer.param_groups[0]["lr"] = settings.learning_rate * 0.1 ** (epoch // settings.divide_every)
            batches = ((x.to(device), y.to(device)) for x, y in _batches(settings, images, split, epoch))
            history.append(_epoch(model, optimizer, batches, epoch + 1, progress))
            state = {"optimizer": optimizer.state_dict(), "history": history}
            write_checkpoint(files.checkpoints, Checkpoint(epoch + 1, weights_of(model), state), EXTRACTOR)
            loss, accuracy = history[-1].values()
            progress.say(f"epoch {epoch + 1} of {settings.epochs}: loss {loss:.3f}, accuracy {accuracy:.1%}")
    write_weights(files.extractor, weights_of(extractor), EXTRACTOR)
    record: dict[str, object] = {"settings": settings.model_dump(), "epochs": history}
    record |= {"left_out": [asdict(row) for row in left_out]} if settings.skip_bad else {}
    write_atomically(files.pretraining, (json.dumps(record, indent=2) + "\n").encode())
    return record


def _epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[tuple[Tensor, Tensor]],
    epoch: int,
    progress: Progress,
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
        progress.add(len(y))
    return {"loss": losses / images, "accuracy": correct / images}


def _batches(settings: PretrainSettings, images: Cached, split: Split, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All images of the train split in random order, scaled, and their labels."""
    numbers = np.concatenate([np.arange(count) for count in split.images])
    labels = np.repeat(np.arange(len(split.classes)), split.images)
    random = torch.Generator().manual_seed(settings.seed + epoch)
    for chosen in torch.randperm(len(labels), generator=random).split(settings.batch):
        rows = chosen.numpy()
        pixels = torch.from_numpy(images.batch(np.array(split.classes)[labels[rows]], numbers[rows]))
        yield (
            SCALINGS[settings.scale](shifted(pixels, settings.crop, settings.flip, random)),
            torch.from_numpy(labels[rows]),
        )


def load_pretrained(net: nn.Module, path: Path) -> None:
    """Load what `pretrain` wrote into a net with any norm; alpha keeps its initial value, and updates count from 0.

    CNAPs' own file, `pretrained_resnet.pt.tar`, is taken as well (see `tasknorm.training.released`).

    Raises:
        WeightsError: if the file is damaged, or of another net.
    """
    try:
        weights = released_extractor(path) if is_released(path) else read_weights(path, EXTRACTOR)
        counts = [name for name in weights if name.endswith(".num_batches_tracked")]  # BRN's schedule goes by them
        missing, unexpected = net.load_state_dict(weights | dict.fromkeys(counts, torch.tensor(0)), strict=False)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()
        raise WeightsError(
            f"{path}: these weights do not fit the net {type(net).__name__}: {first}; pretrain the same net"
        ) from None
    missing = [name for name in missing if ".alpha_" not in name]
    if missing or unexpected:
        raise WeightsError(
            f"{path}: these weights do not fit the net {type(net).__name__}: it lacks {missing[:3]} and has "
            f"{unexpected[:3]} too many; pretrain the same net"
        )

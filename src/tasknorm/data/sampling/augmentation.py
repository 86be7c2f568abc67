"""Images changed at random for training: tasks of photos (`augmented`), and the batches of pretraining (`shifted`).

A task's images are changed each by itself, in this order:

| name     | what happens to an image                                                                         |
|----------|--------------------------------------------------------------------------------------------------|
| `crop`   | a part of it, 40 to 100 % of its area and 3:4 to 4:3 of its shape, is stretched over all of it   |
| `flip`   | it is mirrored, left to right, half of the time                                                  |
| `colour` | brightness, contrast and saturation are multiplied by 0.6 to 1.4 each; grey has no saturation    |

The numbers follow from the seed, the task and the image's place in it alone. Each image has its own whichever names are
asked for: with `crop` or without, the same images are mirrored.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tasknorm.data.sampling.random_stream import Floats, Stream, exp
from tasknorm.episode import Episode
from tasknorm.errors import DataError

AUGMENTATIONS = ("crop", "flip", "colour")
PURPOSE = 2  # of the stream of random numbers; a mixture's is 1
NUMBERS = 8  # random numbers of an image
LEAST_AREA = 0.4
LOG_SHAPE = math.log(4 / 3)
JITTER = 0.4
GREY = (19595, 38470, 7471)  # of 65536: how much red, green and blue count (ITU-R 601), as in Pillow


def augmented(episode: Episode, names: Collection[str], seed: int, index: int) -> Episode:
    """The same task with its images changed.

    Args:
        episode: task `index` of `seed`, its images bytes `(images, channels, height, width)`.
        names: of `AUGMENTATIONS`, in any order.
        seed: the tasks' seed.
        index: the task's number.

    Raises:
        DataError: if a name is unknown.
    """
    check_augmentations(names)
    stream = Stream(seed, index, PURPOSE)
    context_x, target_x = (
        _changed(x, names, stream.uniforms(len(x) * NUMBERS).reshape(len(x), NUMBERS))
        for x in (episode.context_x, episode.target_x)
    )
    return Episode(context_x, episode.context_y, target_x, episode.target_y)


def check_augmentations(names: Collection[str]) -> None:
    """Raise a `DataError` at a name that is unknown."""
    if unknown := [name for name in names if name not in AUGMENTATIONS]:
        raise DataError(f"an augmentation must be one of {', '.join(AUGMENTATIONS)}, got {unknown[0]!r}; correct it")


def _changed(pixels: Tensor, names: Collection[str], uniforms: Floats) -> Tensor:
    """Images `(N, C, H, W)`, changed as the numbers `(N, NUMBERS)` say."""
    pixels = cropped(pixels, uniforms[:, :4]) if "crop" in names else pixels
    pixels = flipped(pixels, uniforms[:, 4]) if "flip" in names else pixels
    return coloured(pixels, uniforms[:, 5:]) if "colour" in names else pixels


def cropped(pixels: Tensor, uniforms: Floats) -> Tensor:
    """A part of each image `(N, C, H, W)`, stretched over all of it bilinearly: no image is ever shrunk.

    Args:
        pixels: bytes.
        uniforms: numbers from [0, 1), `(N, 4)`: for area, shape, top and left.
    """
    area, shape = LEAST_AREA + (1 - LEAST_AREA) * uniforms[:, 0], exp(LOG_SHAPE * (2 * uniforms[:, 1] - 1))
    shares = np.minimum(1, np.sqrt([area * shape, area / shape]))  # of height and width, (2, N)
    starts = (1 - shares) * uniforms[:, 2:].T
    down, right = (  # where each row and column of the result lies, from -1 to 1: (N, H), (N, W)
        torch.from_numpy(2 * (start[:, None] + share[:, None] * (np.arange(side) + 0.5) / side) - 1).float()
        for start, share, side in zip(starts, shares, pixels.shape[2:], strict=True)
    )
    grid = torch.stack(torch.broadcast_tensors(right[:, None, :], down[:, :, None]), -1)  # (N, H, W, 2)
    part = F.grid_sample(pixels.float(), grid, "bilinear", "border", align_corners=False)
    return part.round_().clamp_(0, 255).to(torch.uint8)


def flipped(pixels: Tensor, uniforms: Floats) -> Tensor:
    """Each image `(N, C, H, W)`, mirrored if its number, `(N,)`, is below 0.5."""
    return torch.where(torch.from_numpy(uniforms < 0.5).view(-1, 1, 1, 1), pixels.flip(-1), pixels)


def coloured(pixels: Tensor, uniforms: Floats) -> Tensor:
    """Each image `(N, C, H, W)` with other brightness, contrast and, in colour, saturation.

    With grey tones g of an image x and their mean m: brightness b makes b x of it, contrast c then mixes with b m, and
    saturation s with the grey tones of what came out. One sum says the same: s c b x + (1 - s) c b g + (1 - c) b m.

    Args:
        pixels: bytes.
        uniforms: numbers from [0, 1), `(N, 3)`: for brightness, contrast and saturation.
    """
    bright, contrast, saturation = (torch.from_numpy(1 - JITTER + 2 * JITTER * column) for column in uniforms.T)
    sums = pixels.sum((2, 3)).double()  # whole numbers: the same whatever the number of threads
    tones = pixels.float()
    if colour := pixels.shape[1] == len(GREY):
        weights = torch.tensor(GREY).double() / 65536
        mean = sums @ weights
        grey = (tones * weights.float().view(3, 1, 1)).sum(1, keepdim=True)
    else:
        mean = sums.mean(1)
    mean /= pixels[0, 0].numel()
    own = contrast * bright * (saturation if colour else 1)
    made = tones.mul_(_of_each(own)).add_(_of_each((1 - contrast) * bright * mean))
    if colour:
        made.add_(grey.mul_(_of_each((1 - saturation) * contrast * bright)))
    return made.round_().clamp_(0, 255).to(torch.uint8)


def _of_each(numbers: Tensor) -> Tensor:
    return numbers.float().view(-1, 1, 1, 1)


def shifted(pixels: Tensor, most: int, flip: bool, random: torch.Generator) -> Tensor:
    """Each image `(N, C, H, W)` shifted by up to `most` pixels, its edge repeated, and mirrored half of the time."""
    count, channels, *sides = pixels.shape
    shifts = torch.randint(-most, most + 1, (2, count, 1), generator=random)
    down, right = (
        (torch.arange(side) + shift).clamp(0, side - 1) for side, shift in zip(sides, shifts, strict=True)
    )  # (N, H), (N, W)
    if flip:
        right = torch.where(torch.rand(count, 1, generator=random) < 0.5, right.flip(1), right)
    image, channel = torch.arange(count).view(-1, 1, 1, 1), torch.arange(channels).view(-1, 1, 1)
    return pixels[image, channel, down[:, None, :, None], right[:, None, None, :]]

"""Images and weights in the layout in which CPUs convolve, normalise and pool fastest."""

from __future__ import annotations

import torch
from torch import Tensor


def channels_last(x: Tensor) -> Tensor:
    """The same images `(N, C, H, W)` with the channels of a pixel side by side in memory, on CPUs.

    Torch pools such images several times as fast; layers keep the layout that they are given.
    """
    if x.device.type != "cpu" or torch._C._are_functorch_transforms_active():
        return x
    return x.contiguous(memory_format=torch.channels_last)


def weight_channels_last(weight: Tensor) -> Tensor:
    """A convolution's weight with the channels last, the fastest layout in `task_layers`; other weights as they are."""
    with torch.inference_mode(False):
        return weight.contiguous(memory_format=torch.channels_last) if weight.ndim == 4 else weight


def is_channels_last(weight: Tensor) -> bool:
    """Whether this is a convolution's weight with the channels last in memory."""
    return weight.ndim == 4 and weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()


def images_channels_last(x: Tensor) -> Tensor:
    """Images `(N, C, h, w)` with the channels last, even for one channel: torch tells the layout by the strides."""
    _, channels, height, width = x.shape
    x = x.contiguous(memory_format=torch.channels_last)
    return x.as_strided(x.shape, (height * width * channels, 1, width * channels, channels), x.storage_offset())

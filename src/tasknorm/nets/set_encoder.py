"""CNAPs' set encoder (Requeima et al., 2019): it maps a context set to one vector that represents the task."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.kernels import channels_last
from tasknorm.nets.conv4 import NormMaker


class SetEncoder(nn.Module):
    """A vector for each image: blocks of 3x3 convolution, norm, ReLU and 2x2 max-pooling, then the mean over space.

    It takes context images only, so run it in a context phase, at meta-train and at meta-test.

    Args:
        norm: makes a norm from its number of channels.
        channels: number of channels of the images.
        features: number of channels of every block, and size of the vector.
        blocks: number of blocks; each halves the resolution.
    """

    def __init__(self, norm: NormMaker, *, channels: int = 3, features: int = 64, blocks: int = 5) -> None:
        super().__init__()
        self.features = features
        sizes = [channels] + [features] * blocks
        self.convs = nn.ModuleList(nn.Conv2d(*pair, 3, padding=1) for pair in pairwise(sizes))
        self.norms = nn.ModuleList(norm(features) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        """A vector for each image, `(N, features)`; the set's representation is their mean."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.relu(F.max_pool2d(norm(channels_last(conv(channels_last(x)))), 2))
        return x.mean((2, 3))

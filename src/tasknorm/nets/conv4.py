"""Conv-4, the four-block network of MAML (Finn et al., 2017) and ProtoNets (Snell et al., 2017).

Each block is a 3x3 convolution with bias, a norm and a ReLU; it halves the image by stride 2 (MAML on Omniglot) or by
2x2 max-pooling (the others). The norm is passed as a callable that takes the number of channels.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.kernels import TaskConv2d, TaskLinear, channels_last

NormMaker = Callable[[int], nn.Module]
Shape = tuple[int, int, int]
BLOCKS = 4


class Block(nn.Module):
    """Convolution, norm and ReLU; the output has half the resolution of the input."""

    def __init__(self, channels: int, filters: int, norm: NormMaker, *, pooled: bool) -> None:
        super().__init__()
        self.conv = TaskConv2d(channels, filters, 3, stride=1 if pooled else 2, padding=1)
        self.norm = norm(filters)
        self.pooled = pooled

    def forward(self, x: Tensor) -> Tensor:
        if not self.pooled:
            return F.relu(self.norm(self.conv(x)))
        x = self.norm(channels_last(self.conv(channels_last(x))))
        return F.relu(F.max_pool2d(x, 2))  # the same as ReLU first, on a quarter of the numbers


class Conv4(nn.Module):
    """Four blocks, followed by a linear classifier if `way` is given.

    Args:
        norm: makes a norm from its number of channels, e.g. `NORMS["TaskNorm-I"]`.
        image_shape: channels, height and width of the images.
        filters: number of channels of every block.
        pooled: True halves by max-pooling and flattens the last map; False halves by stride 2 and averages over space.
        way: number of outputs of the linear classifier; None for a net that returns features.

    >>> import torch
    >>> from tasknorm import NORMS
    >>> Conv4(NORMS["TBN"], (1, 28, 28), 64, pooled=False, way=5)(torch.zeros(3, 1, 28, 28)).shape
    torch.Size([3, 5])
    """

    def __init__(self, norm: NormMaker, image_shape: Shape, filters: int, *, pooled: bool, way: int | None) -> None:
        super().__init__()
        self.image_shape = image_shape
        self.filters = filters
        self.pooled = pooled
        self.way = way
        channels = [image_shape[0]] + [filters] * BLOCKS
        self.blocks = nn.Sequential(*(Block(*pair, norm, pooled=pooled) for pair in pairwise(channels)))
        side = [size >> BLOCKS for size in image_shape[1:]]
        if pooled and min(side) < 1:
            raise ValueError(
                f"four poolings need images of at least {1 << BLOCKS} pixels a side, got image_shape={image_shape}; "
                "use larger images"
            )
        self.features = filters * side[0] * side[1] if pooled else filters
        self.classifier = TaskLinear(self.features, way) if way is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Logits `(N, way)`, or features `(N, features)`, of images `(N, *image_shape)`."""
        x = self.blocks(x)
        features = x.flatten(1) if self.pooled else x.mean((2, 3))
        logits: Tensor = self.classifier(features)
        return logits


def maml_omniglot(norm: NormMaker, *, way: int = 5, filters: int = 64, image_shape: Shape = (1, 28, 28)) -> Conv4:
    """MAML's net for Omniglot: stride 2, mean over space, classifier weights drawn from N(0, 1).

    Difference from the paper: TensorFlow pads even sides by (0, 1), this net by (1, 1). Maps have the same sizes on a
    shifted grid.
    """
    net = Conv4(norm, image_shape, filters, pooled=False, way=way)
    _glorot(net)
    nn.init.normal_(net.classifier.weight)  # type: ignore[arg-type]
    return net


def maml_imagenet(norm: NormMaker, *, way: int = 5, filters: int = 32, image_shape: Shape = (3, 84, 84)) -> Conv4:
    """MAML's net for miniImageNet: max-pooling, 32 filters, classifier on the flattened map."""
    net = Conv4(norm, image_shape, filters, pooled=True, way=way)
    _glorot(net)
    return net


def protonets_conv4(norm: NormMaker, *, filters: int = 64, image_shape: Shape = (1, 28, 28)) -> Conv4:
    """ProtoNets' net: max-pooling, 64 filters, the flattened map as features; PyTorch's default initial weights."""
    return Conv4(norm, image_shape, filters, pooled=True, way=None)


def _glorot(net: Conv4) -> None:
    """Set all weights to Glorot's uniform initial values and all biases to 0."""
    for layer in net.modules():
        if isinstance(layer, TaskConv2d | TaskLinear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

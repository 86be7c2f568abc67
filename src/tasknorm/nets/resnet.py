"""CNAPs' ResNet (Requeima et al., 2019): a 5x5 stem, no initial pooling, FiLM after both norms of each block."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm.kernels import channels_last
from tasknorm.nets.conv4 import NormMaker, Shape
from tasknorm.nets.film import FiLM


class Block(nn.Module):
    """Two 3x3 convolutions with a shortcut; `film` adds a FiLM layer after each of their norms."""

    def __init__(self, channels: int, width: int, stride: int, norm: NormMaker, *, film: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.norm1 = norm(width)
        self.film1 = FiLM(width) if film else nn.Identity()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = norm(width)
        self.film2 = FiLM(width) if film else nn.Identity()
        same = stride == 1 and channels == width
        self.shortcut = nn.Identity() if same else _projection(channels, width, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.film1(self.norm1(self.conv1(x))))
        y = self.film2(self.norm2(self.conv2(y)))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Features of images: a stem, stages of residual blocks, and the mean over space.

    Args:
        norm: makes a norm from its number of channels.
        widths: number of channels of each stage; every stage but the first halves the resolution.
        depth: number of blocks in each stage.
        film: add FiLM layers after the norms, for CNAPs.
        image_shape: channels, height and width of the images.
    """

    def __init__(
        self,
        norm: NormMaker,
        *,
        widths: Sequence[int] = (64, 128, 256, 512),
        depth: int = 2,
        film: bool = False,
        image_shape: Shape = (3, 84, 84),
    ) -> None:
        super().__init__()
        self.image_shape = image_shape
        self.features = widths[-1]
        self.stem = nn.Conv2d(image_shape[0], widths[0], 5, stride=2, padding=1, bias=False)
        self.norm = norm(widths[0])
        self.stages = nn.Sequential()
        channels = widths[0]
        for stage, width in enumerate(widths):
            blocks = nn.Sequential()
            for block in range(depth):
                blocks.append(Block(channels, width, 2 if stage and not block else 1, norm, film=film))
                channels = width
            self.stages.append(blocks)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Features `(N, widths[-1])` of images `(N, *image_shape)`."""
        features: Tensor = self.stages(F.relu(self.norm(channels_last(self.stem(channels_last(x))))))
        return features.mean((2, 3))


def resnet18(norm: NormMaker, *, film: bool = False, image_shape: Shape = (3, 84, 84)) -> ResNet:
    """CNAPs' ResNet-18, for images of 84 pixels a side."""
    return ResNet(norm, film=film, image_shape=image_shape)


def resnet_small(norm: NormMaker, *, film: bool = False, image_shape: Shape = (1, 28, 28)) -> ResNet:
    """A quarter of ResNet-18's width and half of its depth, for images of 28 to 64 pixels a side on CPUs."""
    return ResNet(norm, widths=(16, 32, 64, 128), depth=1, film=film, image_shape=image_shape)


def _projection(channels: int, width: int, stride: int, norm: NormMaker) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), norm(width))

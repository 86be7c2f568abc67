"""EfficientNet-Lite0 (Tan and Le, 2019; without squeeze-and-excitation, with ReLU6): a pretrained network of 14 MB.

It is made with torch's own batch norms, so that pretrained weights fit; convert it to the norm of your choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

EPS, MOMENTUM = 1e-3, 0.01  # of its batch norms


class Stage(NamedTuple):
    """Blocks of one shape; the first has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


LITE0 = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class SameConv2d(nn.Conv2d):
    """A convolution padded as TensorFlow pads: the output is the input's size divided by the stride, rounded up."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps `(N, C, H, W)`; where the padding is odd, the lower and right side get more."""
        padding: list[int] = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1], strict=True):
            missing = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            padding += [missing // 2, missing - missing // 2]
        return super().forward(F.pad(x, padding))


class Block(nn.Module):
    """Expand, convolve each channel by itself, project; with a shortcut where the shapes agree."""

    def __init__(self, channels: int, width: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        if expansion > 1:
            self.expand_conv: nn.Module = nn.Conv2d(channels, inner, 1, bias=False)
            self.bn0: nn.Module = _batch_norm(inner)
        else:
            self.expand_conv, self.bn0 = nn.Identity(), nn.Identity()
        self.depthwise_conv = SameConv2d(inner, inner, kernel, stride, groups=inner, bias=False)
        self.bn1 = _batch_norm(inner)
        self.project_conv = nn.Conv2d(inner, width, 1, bias=False)
        self.bn2 = _batch_norm(width)
        self.expands, self.has_shortcut = expansion > 1, stride == 1 and channels == width

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        y = F.relu6(self.bn1(self.depthwise_conv(y)))
        out: Tensor = self.bn2(self.project_conv(y))
        return out + x if self.has_shortcut else out


class EfficientNetLite(nn.Module):
    """Features of images `(N, 3, H, W)` of any size from 32 pixels on; trained with 224, scaled by (x - 127) / 128.

    Args:
        classes: number of ImageNet's classes for logits in place of features; 0 for features `(N, 1280)`.
    """

    features = 1280

    def __init__(self, classes: int = 0) -> None:
        super().__init__()
        self.conv_stem = SameConv2d(3, 32, 3, 2, bias=False)
        self.bn0 = _batch_norm(32)
        self.blocks = nn.Sequential()
        channels = 32
        for stage in LITE0:
            for number in range(stage.blocks):
                stride = 1 if number else stage.stride
                self.blocks.append(Block(channels, stage.channels, stage.kernel, stride, stage.expansion))
                channels = stage.channels
        self.conv_head = nn.Conv2d(channels, self.features, 1, bias=False)
        self.bn1 = _batch_norm(self.features)
        self.fc = nn.Linear(self.features, classes) if classes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Features `(N, 1280)`, or logits `(N, classes)`."""
        y = F.relu6(self.bn0(self.conv_stem(x)))
        y = F.relu6(self.bn1(self.conv_head(self.blocks(y))))
        logits: Tensor = self.fc(y.mean((2, 3)))
        return logits

    def renamed(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Published weights under the names that they have here, without a classifier that this network lacks.

        The published names begin each part with an underscore: `_blocks.0._bn1.weight`.
        """
        named = {".".join(part.lstrip("_") for part in name.split(".")): value for name, value in weights.items()}
        if isinstance(self.fc, nn.Identity):
            named = {name: value for name, value in named.items() if not name.startswith("fc.")}
        return named


def efficientnet_lite0() -> EfficientNetLite:
    """EfficientNet-Lite0 without a classifier, for `--net tasknorm.nets:efficientnet_lite0`."""
    return EfficientNetLite()


def _batch_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPS, momentum=MOMENTUM)

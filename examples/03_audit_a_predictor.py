"""Find out whether a predictor is transductive: whether its predictions peek at the other targets."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

import tasknorm

WAY = 5
torch.manual_seed(0)
colours = torch.randn(WAY, 3, 1, 1)
context_y, target_y = torch.arange(WAY).repeat(5), torch.arange(WAY).repeat(15)


def images(labels: Tensor) -> Tensor:
    """Images of one colour for each class, with noise."""
    return colours[labels] + 3 * torch.randn(len(labels), 3, 28, 28)


episode = tasknorm.Episode(images(context_y), context_y, images(target_y), target_y)


def prototypes(net: nn.Module) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Nearest class mean in the features of a network."""

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        with tasknorm.context(net):
            context = net(context_x)
        with tasknorm.target(net):
            target = net(target_x)
        means = torch.stack([context[context_y == label].mean(0) for label in range(WAY)])
        return -(torch.cdist(target, means) ** 2)

    return predict


def nearest_pixels(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """A predictor without a network: nearest class mean in the pixels."""
    means = torch.stack([context_x[context_y == label].mean(0).flatten() for label in range(WAY)])
    return -torch.cdist(target_x.flatten(1), means)


# A network with batch norm, converted to three norms in turn.
net = nn.Sequential(nn.Conv2d(3, 32, 5, stride=2), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
net(torch.cat([episode.context_x, episode.target_x]))  # fills the running moments
for label in ("TBN", "CBN", "RN"):
    converted = tasknorm.convert(net.eval(), label, start="paper")
    print(f"--- {label}:", tasknorm.audit(prototypes(converted), episode), "", sep="\n")
print("--- nearest mean in pixels:", tasknorm.audit(nearest_pixels, episode), sep="\n")

"""Train a prototypical network on many tasks, adapt it to five images of new classes, and classify single images."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tasknorm

WAY, TARGETS = 5, 10
torch.manual_seed(0)


def task() -> tasknorm.Episode:
    """One image of each of five new classes to learn from, ten to predict: gratings of some angle, width and colour."""
    angle, width, colour = torch.rand(WAY) * torch.pi, 2 + 4 * torch.rand(WAY), torch.rand(WAY, 3)

    def images(labels: Tensor) -> Tensor:
        y, x = torch.meshgrid(torch.arange(28.0), torch.arange(28.0), indexing="ij")
        along = angle[labels][:, None, None]
        phase = (x * along.cos() + y * along.sin()) / width[labels][:, None, None] + 6 * torch.rand(len(labels), 1, 1)
        grating = phase.sin()[:, None] * colour[labels][:, :, None, None]
        return grating + 0.3 * torch.randn(len(labels), 3, 28, 28)

    context_y, target_y = torch.arange(WAY), torch.arange(WAY * TARGETS) % WAY
    return tasknorm.Episode(images(context_y), context_y, images(target_y), target_y)


def network() -> nn.Sequential:
    blocks = [
        nn.Sequential(nn.Conv2d(i, 32, 3, padding=1), tasknorm.NORMS["TaskNorm-I"](32), nn.ReLU(), nn.MaxPool2d(2))
        for i in (3, 32, 32)
    ]
    return nn.Sequential(*blocks, nn.Flatten())


def scores(context: Tensor, labels: Tensor, target: Tensor) -> Tensor:
    """Minus the squared distance of each target to the mean of each class's context."""
    prototypes = torch.stack([context[labels == label].mean(0) for label in range(WAY)])
    return -(torch.cdist(target, prototypes) ** 2) / target.shape[1]


net = network()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(100):
    episode = task()
    with tasknorm.joint(net, context_size=WAY):
        features = net(torch.cat([episode.context_x, episode.target_x]))
    loss = F.cross_entropy(scores(features[:WAY], episode.context_y, features[WAY:]), episode.target_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0 or step == 99:
        print(f"step {step:3}: loss {loss.item():.2f}")

# Adapt to five images of new classes. Their moments become part of the state dict.
episode = task()
net.eval()
with torch.no_grad(), tasknorm.context(net):
    context = net(episode.context_x)

with tempfile.TemporaryDirectory() as folder:
    torch.save(net.state_dict(), Path(folder) / "adapted.pt")
    adapted = network().eval()
    adapted.load_state_dict(torch.load(Path(folder) / "adapted.pt", weights_only=True))

# Later, elsewhere: one image at a time.
with torch.no_grad(), tasknorm.target(adapted):
    predictions = [
        scores(context, episode.context_y, adapted(image[None])).argmax().item() for image in episode.target_x
    ]
correct = sum(a == b for a, b in zip(predictions, episode.target_y.tolist(), strict=True))
print(f"adapted to {WAY} images, saved, reloaded: {correct} of {len(predictions)} single images right")

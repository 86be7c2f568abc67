"""Swap the batch norms of an existing network for TaskNorm, keeping its trained weights."""

import torch
from torch import nn

import tasknorm

# Any network with batch norms works: one of torchvision's or timm's, or your own.
model = nn.Sequential(
    nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
    nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
    nn.Flatten(),
    nn.LazyLinear(5),
)
model(torch.randn(8, 3, 28, 28))

print("swapped:")
model = tasknorm.convert(model, "TaskNorm-I", start="paper", report=print)  # to be trained from here on

# One task: 25 context images to learn from, 10 targets to predict, in one pass.
context, target = torch.randn(25, 3, 28, 28), torch.randn(10, 3, 28, 28)
with tasknorm.joint(model, context_size=25):
    together = model(torch.cat([context, target]))[25:]

# The same in two passes: first the context, then the targets whenever they arrive, here one by one.
with tasknorm.context(model):
    model(context)
with tasknorm.target(model):
    one_by_one = torch.cat([model(image[None]) for image in target])

print(f"\none pass and ten single images differ by at most {(together - one_by_one).abs().max():.1e}")
for name, module in model.named_modules():
    if isinstance(module, tasknorm.norms.TaskNorm):
        print(f"{name}: alpha = {module.alpha(25):.2f} with 25 context images, before training")

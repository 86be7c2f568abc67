"""Swap the batch norms of an existing network for TaskNorm, keeping its trained weights."""

# %%
import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import tasknorm

torch.manual_seed(0)

# %% [markdown]
# Any network with batch norms works: one of torchvision's or timm's, or your own.

# %%
model = nn.Sequential(
    nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
    nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
    nn.Flatten(),
    nn.LazyLinear(5),
)
model(torch.randn(8, 3, 28, 28))

print("swapped:")
swapped = tasknorm.convert(model, "TaskNorm-I", start="paper", report=print)  # to be trained from here on

# %% [markdown]
# One task: 25 context images to learn from, 10 targets to predict, in one pass. Some images are brighter than others.

# %%
context, target = (torch.randn(n, 1, 1, 1) + torch.randn(n, 3, 28, 28) for n in (25, 10))
with torch.no_grad(), tasknorm.joint(swapped, context_size=25):
    together = swapped(torch.cat([context, target]))[25:]

# %% [markdown]
# The same in two passes: first the context, then the targets whenever they arrive, here one by one.

# %%
with torch.no_grad(), tasknorm.context(swapped):
    swapped(context)
with torch.no_grad(), tasknorm.target(swapped):
    one_by_one = torch.cat([swapped(image[None]) for image in target])

same = torch.allclose(together, one_by_one, atol=1e-4)
print(f"one pass and ten single images give {'the same' if same else 'different'} scores")
for name, module in swapped.named_modules():
    if isinstance(module, tasknorm.norms.TaskNorm):
        print(f"{name}: alpha = {module.alpha(25):.2f} with 25 context images, before training")

# %% [markdown]
# That is what the swap is for. Batch norm that takes its moments from the batch at hand (TBN) gives an image other
# scores when it comes alone; TaskNorm does not look at the other targets.


# %%
def scores(norm: str) -> tuple[Tensor, Tensor]:
    """The targets' scores, `(targets, classes)`, all at once and one at a time."""
    net = tasknorm.convert(model, norm, start="paper")
    with torch.no_grad(), tasknorm.context(net):
        net(context)
    with torch.no_grad(), tasknorm.target(net):
        return net(target), torch.cat([net(image[None]) for image in target])


figure, axes = plt.subplots(1, 2, figsize=(7, 3.2), layout="constrained", sharex=True, sharey=True)
for axis, norm in zip(axes, ("TBN", "TaskNorm-I"), strict=True):
    all_at_once, alone = scores(norm)
    axis.axline((0, 0), slope=1, color="silver")
    axis.scatter(all_at_once.flatten(), alone.flatten(), s=12)
    axis.set(title=norm, xlabel="score, all targets at once")
axes[0].set_ylabel("score, one at a time")
plt.show()

"""Find out whether a predictor, yours or someone else's, is transductive: whether it peeks at the other targets."""

# %%
from collections.abc import Callable

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import tasknorm

WAY = 5
torch.manual_seed(0)

# %% [markdown]
# One task to try predictors on: 25 context images and 75 targets, of one colour for each class, with noise.

# %%
colours = torch.randn(WAY, 3, 1, 1)
context_y, target_y = torch.arange(WAY).repeat(5), torch.arange(WAY).repeat(15)


def images(labels: Tensor) -> Tensor:
    """Images of one colour for each class, with noise, `(labels, 3, 28, 28)`."""
    return colours[labels] + 3 * torch.randn(len(labels), 3, 28, 28)


episode = tasknorm.Episode(images(context_y), context_y, images(target_y), target_y)
audits = {}

# %% [markdown]
# ## Someone else's predictor
#
# The audit needs a function of context images, their labels and target images, and nothing else: no class of ours, no
# look inside. This one is written as many few-shot programs are: the network is left in `train()`, where batch norm
# takes its moments from the batch at hand.

# %%
net = nn.Sequential(nn.Conv2d(3, 32, 5, stride=2), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
net(torch.cat([episode.context_x, episode.target_x]))  # fills the running moments


@torch.no_grad()
def theirs(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Nearest class mean, with a network that nobody called `eval()` on."""
    context, target = net.train()(context_x), net(target_x)
    means = torch.stack([context[context_y == label].mean(0) for label in range(WAY)])
    return -(torch.cdist(target, means) ** 2)


audits["theirs"] = tasknorm.audit(theirs, episode)
print(audits["theirs"])

# %% [markdown]
# Its accuracy with all targets at once would be printed in a paper; a service that gets one image at a time would
# have the other one. A predictor without a network, for comparison:


# %%
def nearest_pixels(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Nearest class mean in the pixels."""
    means = torch.stack([context_x[context_y == label].mean(0).flatten() for label in range(WAY)])
    return -torch.cdist(target_x.flatten(1), means)


audits["pixels"] = tasknorm.audit(nearest_pixels, episode)
print("--- nearest mean in pixels:", audits["pixels"], sep="\n")

# %% [markdown]
# ## The remedy
#
# The same network, converted to three norms in turn.


# %%
def prototypes(net: nn.Module) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Nearest class mean in the features of a network."""

    @torch.no_grad()
    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        with tasknorm.context(net):
            context = net(context_x)
        with tasknorm.target(net):
            target = net(target_x)
        means = torch.stack([context[context_y == label].mean(0) for label in range(WAY)])
        return -(torch.cdist(target, means) ** 2)

    return predict


for label in ("TBN", "CBN", "RN"):
    converted = tasknorm.convert(net.eval(), label, start="paper")
    audits[label] = tasknorm.audit(prototypes(converted), episode)
    print(f"--- {label}:", audits[label], "", sep="\n")

# %% [markdown]
# What a predictor scores should not depend on how the targets come:

# %%
figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
for number, (come, words) in enumerate({"all": "all at once", "example": "one at a time"}.items()):
    heights = [100 * audit.accuracy[come] for audit in audits.values()]
    axis.bar([place + 0.38 * number for place in range(len(audits))], heights, width=0.36, label=words)
axis.set_xticks([place + 0.19 for place in range(len(audits))], [f"{name}\n{a.label}" for name, a in audits.items()])
axis.tick_params(labelsize=8)
axis.set_ylabel("accuracy, %")
figure.legend(loc="outside upper right", ncols=2, fontsize=8)
plt.show()

"""Train a prototypical network on many tasks, adapt it to five images of new classes, and classify single images."""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import tasknorm
from tasknorm.data import Cached, Episodes, FixedSampler, opened, scaled

WAY, STEPS = 5, 150
torch.manual_seed(0)


# %%
def network() -> nn.Sequential:
    blocks = [
        nn.Sequential(nn.Conv2d(i, 32, 3, padding=1), tasknorm.NORMS["TaskNorm-I"](32), nn.ReLU(), nn.MaxPool2d(2))
        for i in (1, 32, 32)
    ]
    return nn.Sequential(*blocks, nn.Flatten())


def scores(context: Tensor, labels: Tensor, target: Tensor) -> Tensor:
    """Minus the squared distance between each target and the mean of each class's context features, per feature."""
    prototypes = torch.stack([context[labels == label].mean(0) for label in range(WAY)])
    return -(torch.cdist(target, prototypes) ** 2) / target.shape[1]


# %% [markdown]
# Characters of many scripts, drawn on this machine; training and test scripts differ.

# %%
glyphs = Cached(opened("glyphs"), size=28)
train, test = (
    Episodes(glyphs, FixedSampler(glyphs.spec.splits[split], WAY, shot=1, targets=10)) for split in ("train", "test")
)

net = network()
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
losses = []
for step in range(STEPS):
    episode = scaled(train[step])
    with tasknorm.joint(net, context_size=WAY):
        features = net(torch.cat([episode.context_x, episode.target_x]))
    loss = F.cross_entropy(scores(features[:WAY], episode.context_y, features[WAY:]), episode.target_y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 50 == 0 or step == STEPS - 1:
        print(f"step {step:3}: loss {loss.item():.2f}")

# %%
figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
axis.plot(losses, linewidth=1)
axis.set(xlabel="task", ylabel="loss")
plt.show()

# %% [markdown]
# Adapt to one image of each of five characters from a script that training never saw.

# %%
episode = scaled(test[0])
net.eval()
with torch.no_grad(), tasknorm.context(net):
    context = net(episode.context_x)

# %% [markdown]
# The moments of the context are part of the state dict.

# %%
with tempfile.TemporaryDirectory() as folder:
    torch.save(net.state_dict(), Path(folder) / "adapted.pt")
    adapted = network().eval()
    adapted.load_state_dict(torch.load(Path(folder) / "adapted.pt", weights_only=True))

# %% [markdown]
# Later, elsewhere: one image at a time.

# %%
with torch.no_grad(), tasknorm.target(adapted):
    predictions = [
        scores(context, episode.context_y, adapted(image[None])).argmax().item() for image in episode.target_x
    ]
correct = sum(a == b for a, b in zip(predictions, episode.target_y.tolist(), strict=True))
print(
    f"adapted to {WAY} images, saved, reloaded: {correct} of {len(predictions)} single images are classified correctly"
)

# %% [markdown]
# The five context images, and below each the targets that were taken for its class; wrong ones have a red frame.

# %%
columns = [[i for i, label in enumerate(predictions) if label == column][:6] for column in range(WAY)]
figure, axes = plt.subplots(7, WAY, figsize=(4, 5.6), layout="constrained")
for axis in axes.flat:
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
for column in range(WAY):
    first = episode.context_y.tolist().index(column)
    axes[0, column].imshow(1 - episode.context_x[first, 0].numpy(), cmap="gray")
    axes[0, column].set_title(f"class {column}", fontsize=9)
    for axis, i in zip(axes[1:, column], columns[column], strict=False):
        axis.imshow(1 - episode.target_x[i, 0].numpy(), cmap="gray")
        axis.spines[:].set(visible=episode.target_y[i].item() != column, color="red", linewidth=2)
plt.show()

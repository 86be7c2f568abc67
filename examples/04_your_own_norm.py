"""A norm of your own: say which moments it normalises with, and it works with every learner, phase and tool."""

# %%
from functools import partial
from typing import ClassVar

import matplotlib.pyplot as plt
import torch

import tasknorm
from tasknorm import NORMS, Activations, Moments, Norm, nets
from tasknorm.data import Cached, Episodes, FixedSampler, opened, scaled
from tasknorm.evaluation import evaluate
from tasknorm.learners import ProtoNets

# %% [markdown]
# `Activations` offers the moments of each example (`instance`), of its layer, of a group of channels, of its own set,
# and of the context. This norm takes the mean from the example and the variance from its context.


# %%
class ContextSpread(Norm):
    """Each example is centred by itself and scaled by its context."""

    label: ClassVar[str] = "ContextSpread"
    transductive: ClassVar[bool] = False  # a promise, which the audit checks
    needs_context: ClassVar[bool] = True

    def moments(self, a: Activations) -> Moments:
        return Moments(a.instance.mean, a.context.var)


NORMS[ContextSpread.label] = ContextSpread  # so that tasknorm.convert finds it by name

# %% [markdown]
# Prototypical networks on Conv-4 with this norm, trained for a moment on one image of each of five characters.

# %%
torch.manual_seed(0)
glyphs = Cached(opened("glyphs"), size=28)
train, test = (
    Episodes(glyphs, FixedSampler(glyphs.spec.splits[split], way=5, shot=1, targets=10)) for split in ("train", "test")
)
learner = ProtoNets(nets.protonets_conv4(partial(ContextSpread, eps=1e-3), filters=16))
optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3)
losses = []
for step in range(60):
    loss = learner.learn([scaled(train[step])]).losses.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
axis.plot(losses, linewidth=1)
axis.set(xlabel="task", ylabel="loss")
plt.show()

# %% [markdown]
# Its accuracy on characters of other scripts is the same however the targets come, as it promised.

# %%
learner.eval()
print("all at once:", evaluate(learner, lambda number: scaled(test[number]), tasks=50))
print("one by one: ", evaluate(learner, lambda number: scaled(test[number]), tasks=50, targets="example"))

# %% [markdown]
# The audit checks that promise on the predictor itself.

# %%
episode = scaled(test[0])
predictor = learner.adapt(episode.context_x, episode.context_y)
print(tasknorm.audit(lambda x, y, targets: predictor(targets), episode))

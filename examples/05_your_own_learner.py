"""A learner of your own: ridge regression on the context's features, with any of the norms."""

# %%
import copy

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm import NORMS, context, joint, nets
from tasknorm.data import Cached, Episodes, FixedSampler, opened, scaled
from tasknorm.evaluation import evaluate
from tasknorm.learners import Learner, Predictor, Tasks

# %% [markdown]
# A learner has two methods: `logits` for whole tasks, which training and evaluation use, and `adapt` for targets that
# come later.


# %%
class Ridge(Learner):
    """A linear classifier by ridge regression of one-hot labels on the context's features: W = X'(XX' + I)^-1 Y."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.temperature = nn.Parameter(torch.tensor(10.0))

    def logits(self, tasks: Tasks) -> Tensor:
        """Logits of the targets of some tasks, `(tasks, target, way)`, in one pass of context and targets."""
        with joint(self.net, tasks.context_size, tasks.count):
            features = self.net(tasks.images).unflatten(0, (tasks.count, -1))
        context_features, target_features = features.tensor_split([tasks.context_size], dim=1)
        weights = [self._weights(x, labels) for x, labels in zip(context_features, tasks.context_y, strict=True)]
        return torch.bmm(target_features, torch.stack(weights).mT)

    @torch.no_grad()
    def adapt(self, context_x: Tensor, context_y: Tensor) -> Predictor:
        """A predictor for targets that arrive later."""
        net = copy.deepcopy(self.net).eval()
        with context(net):
            weights = self._weights(net(context_x), context_y)
        return Predictor(net, weights, torch.zeros(len(weights)))

    def _weights(self, x: Tensor, labels: Tensor) -> Tensor:
        """`(way, features)` from context features `(context, features)`."""
        fitted: Tensor = torch.linalg.solve(x @ x.T + torch.eye(len(x)), F.one_hot(labels).to(x.dtype))
        return self.temperature * fitted.T @ x


# %% [markdown]
# Trained for a moment with two norms, tested with all targets at once and with one at a time. TBN peeks at the other
# targets, and falls when it cannot.

# %%
torch.manual_seed(0)
glyphs = Cached(opened("glyphs"), size=28)
train, test = (
    Episodes(glyphs, FixedSampler(glyphs.spec.splits[split], way=5, shot=1, targets=10)) for split in ("train", "test")
)
found: dict[str, list[float]] = {}
for norm in ("TBN", "TaskNorm-I"):
    learner = Ridge(nets.protonets_conv4(NORMS[norm], filters=16))
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3)
    for step in range(60):
        loss = learner.learn([scaled(train[step])]).losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for targets in ("all", "example"):
        result = evaluate(learner, lambda number: scaled(test[number]), tasks=50, targets=targets)
        found.setdefault(targets, []).append(result.accuracy.percent)
        print(f"{norm}: {result}")

# %%
figure, axis = plt.subplots(figsize=(5, 2.6), layout="constrained")
for number, (targets, words) in enumerate({"all": "all at once", "example": "one at a time"}.items()):
    axis.bar([0.4 * number, 1 + 0.4 * number], found[targets], width=0.38, label=words)
axis.set_xticks([0.2, 1.2], ["TBN", "TaskNorm-I"])
axis.set_ylabel("accuracy, %")
figure.legend(loc="outside upper right", ncols=2)
plt.show()

"""A learner of your own: ridge regression on the context's features, with any of the norms."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tasknorm import NORMS, context, joint, nets
from tasknorm.data import Cached, Episodes, FixedSampler, opened, scaled
from tasknorm.episode import Episode
from tasknorm.evaluation.evaluation import evaluate
from tasknorm.learners import Learner, Outcome, Predictor


class Ridge(Learner):
    """The linear classifier that fits the context best, by regression to one-hot labels: W = X'(XX' + I)^-1 Y."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.temperature = nn.Parameter(torch.tensor(10.0))

    def forward(self, episode: Episode) -> Tensor:
        """Logits of the targets, `(target, way)`."""
        size = len(episode.context_x)
        with joint(self.net, size):
            features = self.net(torch.cat([episode.context_x, episode.target_x]))
        return F.linear(features[size:], self._weights(features[:size], episode.context_y))

    def learn(self, episodes: Sequence[Episode]) -> Outcome:
        """Losses and logits of a meta-batch."""
        logits = [self(episode) for episode in episodes]
        losses = [F.cross_entropy(*pair) for pair in zip(logits, (e.target_y for e in episodes), strict=True)]
        return Outcome(torch.stack(losses), [scores.detach() for scores in logits])

    @torch.no_grad()
    def adapt(self, context_x: Tensor, context_y: Tensor) -> Predictor:
        """A classifier for targets that come later."""
        net = copy.deepcopy(self.net).eval()
        with context(net):
            weights = self._weights(net(context_x), context_y)
        return Predictor(net, weights, torch.zeros(len(weights)))

    def _weights(self, x: Tensor, labels: Tensor) -> Tensor:
        """`(way, features)` from context features `(context, features)`."""
        fitted: Tensor = torch.linalg.solve(x @ x.T + torch.eye(len(x)), F.one_hot(labels).to(x.dtype))
        return self.temperature * fitted.T @ x


torch.manual_seed(0)
glyphs = Cached(opened("glyphs"), size=28)
train, test = (
    Episodes(glyphs, FixedSampler(glyphs.spec.splits[split], way=5, shot=1, targets=10)) for split in ("train", "test")
)
for norm in ("TBN", "TaskNorm-I"):
    learner = Ridge(nets.protonets_conv4(NORMS[norm], filters=16))
    optimizer = torch.optim.Adam(learner.parameters(), lr=3e-3)
    for step in range(60):
        loss = learner.learn([scaled(train[step])]).losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for targets in ("all", "example"):
        print(f"{norm}: {evaluate(learner, lambda number: scaled(test[number]), tasks=50, targets=targets)}")

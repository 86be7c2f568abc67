"""ProtoNets: the linear classifier is minus the squared distance."""

from __future__ import annotations

import pytest
import torch

import tasknorm
from support.glyph_tasks import episode, episodes
from support.small_learners import fresh
from tasknorm.learners import ProtoNets


def test_logits_are_minus_the_squared_distances_but_for_a_constant() -> None:
    model, task = fresh("protonets", "TaskNorm-I").double(), episode(0, shot=3)
    context_x, target_x = task.context_x.double(), task.target_x.double()
    with tasknorm.context(model.net):
        context = model.net(context_x)
    with tasknorm.target(model.net):
        targets = model.net(target_x)
    means = torch.stack([context[task.context_y == label].mean(0) for label in range(5)])
    expected = -(targets[:, None] - means).square().sum(-1)
    logits = model(tasknorm.Episode(context_x, task.context_y, target_x, task.target_y))
    torch.testing.assert_close(logits.log_softmax(1), expected.log_softmax(1))


def test_the_loss_is_the_mean_or_the_sum_over_targets() -> None:
    net = fresh("protonets", "LN").net
    mean, total = (ProtoNets(net, reduction=reduction).learn(episodes(0, 2)).losses for reduction in ("mean", "sum"))
    torch.testing.assert_close(15 * mean, total)
    with pytest.raises(ValueError, match='must be "mean" or "sum", got \'max\''):
        ProtoNets(net, reduction="max")

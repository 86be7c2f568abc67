"""Recomputation changes memory, and nothing else: with every norm, in every phase, backwards outside of it."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tasknorm import NORMS, Episode, context, joint, nets, target
from tasknorm.learners import CNAPs
from tasknorm.training.recomputation import recompute


def both(norm):
    torch.manual_seed(0)
    plain = nets.protonets_conv4(NORMS[norm], filters=4).double().train()
    for module in plain.modules():
        if hasattr(module, "num_batches_tracked"):
            module.num_batches_tracked += 1  # Baseline asks for running moments
    return plain, recompute(copy.deepcopy(plain))


def same(plain, again):
    for (name, one), (_, two) in zip(plain.named_parameters(), again.named_parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, msg=name)
    for (name, one), (_, two) in zip(plain.named_buffers(), again.named_buffers(), strict=True):
        torch.testing.assert_close(one, two, msg=name)


@pytest.mark.parametrize("norm", NORMS)
def test_joint_with_backward_outside(norm):
    x = torch.rand(2 * 6, 1, 28, 28, dtype=torch.float64)
    models = both(norm)
    for model in models:
        for _ in range(2):  # the second pass meets running moments that the first has moved
            with joint(model, context_size=4, tasks=2):
                features = model(x)
            features.square().sum().backward()
    same(*models)


@pytest.mark.parametrize("norm", NORMS)
def test_context_then_target_with_backward_outside(norm):
    x = torch.rand(10, 1, 28, 28, dtype=torch.float64)
    models = both(norm)
    for model in models:
        with context(model):
            means = model(x[:6])
        with target(model):
            features = model(x[6:])
        (features.square().sum() - means.sum()).backward()
        assert all(module.phase is None for module in model.modules() if hasattr(module, "phase"))
    same(*models)


def test_cnaps_recomputes_with_each_task_s_film():
    torch.manual_seed(0)
    plain = CNAPs(nets.resnet_small(NORMS["TaskNorm-I"], film=True), NORMS["TaskNorm-I"]).double()
    again = copy.deepcopy(plain)
    recompute(again.extractor)
    x, y = torch.rand(2, 10, 1, 28, 28, dtype=torch.float64), torch.arange(10) % 5
    for learner in (plain, again):
        learner.learn([Episode(task, y, task.flip(0), y.flip(0)) for task in x]).losses.sum().backward()
    for (name, one), (_, two) in zip(plain.named_parameters(), again.named_parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, msg=name)


def test_resnets_recompute_and_keep_their_names():
    net = nets.resnet_small(NORMS["TaskNorm-I"])
    names = list(net.state_dict())
    assert list(recompute(net).state_dict()) == names


def test_it_keeps_less():
    """Bytes held for the backward pass."""

    def held(model):
        sizes = {}

        def pack(tensor):
            sizes[tensor.data_ptr()] = tensor.numel()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), joint(model, context_size=4):
            model(torch.rand(20, 1, 28, 28, dtype=torch.float64))
        return sum(sizes.values())

    plain, again = both("TaskNorm-I")
    assert held(again) < held(plain) / 3


def test_a_net_without_blocks_is_refused():
    with pytest.raises(ValueError, match="whose blocks are in nn"):
        recompute(nn.Linear(1, 1))

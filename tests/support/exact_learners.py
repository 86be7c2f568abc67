"""Learners in float64, so small that a test takes a moment, for comparisons to the last digits."""

from __future__ import annotations

import torch
from torch import nn

import tasknorm
from tasknorm import NORMS, nets
from tasknorm.learners import MAML, NCM, CNAPs, Learner, ProtoNets

SHAPE = (1, 16, 16)


def with_running(model: nn.Module) -> nn.Module:
    """The model in float64; Baseline asks for running moments, which are then there."""
    for module in model.modules():
        if isinstance(module, tasknorm.Norm):
            module.num_batches_tracked += 1
    return model.double().train()


def learner_of(name: str, norm: str) -> Learner:
    torch.manual_seed(0)
    make = NORMS[norm]
    small = nets.ResNet(make, widths=(4, 6), depth=2, film=name == "cnaps", image_shape=SHAPE)
    if name == "cnaps":
        return with_running(CNAPs(small, make, encoder_filters=4))
    if name == "maml":
        return with_running(MAML(nets.maml_omniglot(make, way=2, filters=3, image_shape=SHAPE), inner_steps=2))
    if name == "second-order":
        net = nets.maml_imagenet(make, way=2, filters=3, image_shape=SHAPE)
        return with_running(MAML(net, inner_steps=2, inner_lr=0.01, first_order=False))
    return with_running(NCM(small) if name == "ncm" else ProtoNets(small))

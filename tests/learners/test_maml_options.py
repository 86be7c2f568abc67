"""MAML's options: ANIL, which adapts the classifier alone, and norms for each inner step, as in MAML++."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

import tasknorm
from support.glyph_tasks import episodes
from tasknorm import NORMS, Episode
from tasknorm.learners import MAML, Predictor
from tasknorm.nets import maml_omniglot

LR, STEPS, BUFFERS = 0.05, 3, ("running_mean", "running_var", "num_batches_tracked")


def learner(label: str, **options: object) -> MAML:
    torch.manual_seed(0)
    net = maml_omniglot(partial(NORMS[label], affine=True, eps=1e-3), filters=4).double()
    return MAML(net, inner_lr=LR, inner_steps=STEPS, **options)


def disturbed(model: MAML) -> MAML:
    """With norms that differ from step to step."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in (*model.net.blocks.parameters(), *model.later_norms.parameters()):
            parameter += 0.2 * torch.randn_like(parameter)
    return model


def doubles(seed: int, count: int) -> list[Episode]:
    tasks = episodes(seed, count, shot=2)
    return [Episode(t.context_x.double(), t.context_y, t.target_x.double(), t.target_y) for t in tasks]


def mean_loss(logits: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(logits, y, reduction="sum") / 2  # two shots


def anil_reference(net: nn.Module, task: Episode, first_order: bool) -> Tensor:
    """ANIL's loss written out for one task."""
    body = copy.copy(net)
    body._modules = dict(net._modules) | {"classifier": nn.Identity()}
    with tasknorm.joint(body, len(task.context_y)):
        features = body(torch.cat((task.context_x, task.target_x)))
    context, target = features[: len(task.context_y)], features[len(task.context_y) :]
    weight, bias = net.classifier.weight, net.classifier.bias
    for _ in range(STEPS):
        loss = mean_loss(F.linear(context, weight, bias), task.context_y)
        by_weight, by_bias = torch.autograd.grad(loss, (weight, bias), create_graph=True)
        if first_order:
            by_weight, by_bias = by_weight.detach(), by_bias.detach()
        weight, bias = weight - LR * by_weight, bias - LR * by_bias
    return mean_loss(F.linear(target, weight, bias), task.target_y)


def stepwise_reference(model: MAML, task: Episode, first_order: bool) -> Tensor:
    """MAML's loss with norms for each step, written out for one task."""
    net = model.net
    names = [name for name, module in net.named_modules() if isinstance(module, tasknorm.Norm)]
    weights = {name: p for name, p in net.named_parameters() if ".norm." not in name}

    def norms(step: int) -> dict[str, Tensor]:
        own = [net.get_submodule(name) for name in names] if step == 0 else list(model.later_norms[step - 1])
        parameters = {
            f"{name}.{k}": p for name, norm in zip(names, own, strict=True) for k, p in norm.named_parameters()
        }
        buffers = {
            f"{name}.{k}": getattr(norm, k).clone() for name, norm in zip(names, own, strict=True) for k in BUFFERS
        }
        return parameters | buffers

    for step in range(STEPS):
        with tasknorm.context(net):
            logits = functional_call(net, weights | norms(step), (task.context_x,))
        loss = mean_loss(logits, task.context_y)
        gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=not first_order)
        weights = {name: w - LR * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
    with tasknorm.joint(net, len(task.context_y)):
        logits = functional_call(net, weights | norms(STEPS - 1), (torch.cat((task.context_x, task.target_x)),))
    return mean_loss(logits[len(task.context_y) :], task.target_y)


@pytest.mark.parametrize("first_order", [True, False], ids=["first order", "second order"])
@pytest.mark.parametrize("label", ["CBN", "TaskNorm-I"])
@pytest.mark.parametrize("kind", ["anil", "step_norms"])
def test_losses_and_gradients(kind: str, label: str, first_order: bool) -> None:
    model = disturbed(learner(label, first_order=first_order, at_once=2, **{kind: True}))
    other, tasks = copy.deepcopy(model), doubles(0, 3)
    losses = model.learn(tasks).losses
    if kind == "anil":
        expected = torch.stack([anil_reference(other.net, task, first_order) for task in tasks])
    else:
        expected = torch.stack([stepwise_reference(other, task, first_order) for task in tasks])
    torch.testing.assert_close(losses, expected)
    (losses * torch.tensor([1.0, 2.0, -0.5])).sum().backward()
    (expected * torch.tensor([1.0, 2.0, -0.5])).sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), other.parameters(), strict=True):
        if ours.grad is None and theirs.grad is None:
            continue
        zero = torch.zeros_like(ours)
        pair = (zero if grad is None else grad for grad in (ours.grad, theirs.grad))
        torch.testing.assert_close(*pair, rtol=1e-6, atol=1e-9, msg=name)


def test_the_meta_gradient_of_second_order_is_that_of_differences() -> None:
    model, (task,) = disturbed(learner("TaskNorm-I", first_order=False, step_norms=True)), doubles(0, 1)
    for parameter in (
        model.net.blocks[1].norm.bias,
        model.later_norms[1][2].weight,
        model.later_norms[0][0].alpha_offset,
    ):
        model.zero_grad()
        model.learn([task]).losses.sum().backward()
        slope, values = parameter.grad.flatten()[0], []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.view(-1)[0] += sign * 1e-5
                values.append(model.learn([task]).losses.sum())
                parameter.view(-1)[0] -= sign * 1e-5
        torch.testing.assert_close(slope, (values[0] - values[1]) / 2e-5, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("kind", ["anil", "step_norms"])
@pytest.mark.parametrize("label", ["CBN", "TaskNorm-r", "TBN", "TaskNorm-I"])
def test_predictor_steps_and_grouping_agree(kind: str, label: str, tmp_path: Path) -> None:
    """A predictor, its file, the logits of each step and `forward` all give the same; the learner stays as it is."""
    model = disturbed(learner(label, **{kind: True}))
    model.learn(doubles(1, 3))  # moves running moments
    model.eval()
    model.test_steps = STEPS + 1
    before, (task, other) = copy.deepcopy(model.state_dict()), doubles(2, 2)
    expected = model(task).detach()
    together, _ = model.steps([task, other])
    assert together.shape == (STEPS + 1, len(task.target_y), 5)
    torch.testing.assert_close(together[-1], expected)
    predictor = model.adapt(task.context_x, task.context_y)
    torch.testing.assert_close(predictor(task.target_x), expected)
    predictor.save(tmp_path / "predictor.safetensors")
    torch.testing.assert_close(Predictor.load(tmp_path / "predictor.safetensors")(task.target_x), expected)
    if label != "TBN":
        alone, _ = model.steps([task, other], sizes=[1] * len(task.target_y))
        torch.testing.assert_close(alone, together)
    torch.testing.assert_close(model.state_dict(), before)
    with torch.inference_mode():
        torch.testing.assert_close(model(task), expected)


def test_anil_changes_the_classifier_alone() -> None:
    model, task = learner("CBN", anil=True).eval(), doubles(0, 1)[0]
    adapted, initial = model.adapt(task.context_x, task.context_y).net.state_dict(), model.net.state_dict()
    changed = {name for name, p in model.net.named_parameters() if not torch.equal(adapted[name], initial[name])}
    assert changed == {"classifier.weight", "classifier.bias"}


def test_running_moments_of_each_step_are_those_of_its_context() -> None:
    model, tasks = disturbed(learner("CBN", step_norms=True)), doubles(0, 2)
    conv = model.net.blocks[0].conv
    first = torch.stack([conv(task.context_x).mean((0, 2, 3)) for task in tasks]).mean(0)
    together, apart = copy.deepcopy(model), copy.deepcopy(model)
    apart.at_once = 1
    for each in (together, apart):
        each.learn(tasks)
    torch.testing.assert_close(together.net.blocks[0].norm.running_mean, 0.1 * first.detach())
    counts = [norms[0].num_batches_tracked.item() for norms in together.later_norms]
    assert (together.net.blocks[0].norm.num_batches_tracked.item(), *counts) == (1, 1, 2)  # the last sees targets too
    torch.testing.assert_close(together.state_dict(), apart.state_dict())


def test_equal_norms_at_all_steps_are_one_norm() -> None:
    """Without the options nothing changes: copies that are equal to the net's norms give its losses, bit for bit."""
    plain, stepwise, tasks = learner("TaskNorm-I"), learner("TaskNorm-I", step_norms=True), doubles(0, 3)
    assert torch.equal(plain.learn(tasks).losses, stepwise.learn(tasks).losses)
    assert set(plain.state_dict()) < set(stepwise.state_dict())
    assert not any(name.startswith("later") for name in plain.state_dict())


def test_converted_norms_are_those_of_all_steps() -> None:
    model = tasknorm.convert(learner("CBN", step_norms=True), "RN")
    assert {module.label for module in model.modules() if isinstance(module, tasknorm.Norm)} == {"RN"}
    assert model.eval()(doubles(0, 1)[0]).isfinite().all()


def test_anil_serves_a_net_of_other_layers() -> None:
    model = learner("CBN", anil=True)
    other = copy.deepcopy(model)
    classifier = nn.Linear(4, 5).double()
    classifier.load_state_dict(other.net.classifier.state_dict())
    other.net.classifier = classifier
    tasks = doubles(0, 3)
    torch.testing.assert_close(other.learn(tasks).losses, model.learn(tasks).losses)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"anil": True, "step_norms": True}, "anil=True contradicts step_norms=True"),
        ({"anil": True, "compiled": True}, "anil=True contradicts compiled=True"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learner("CBN", **options)


def test_anil_needs_a_classifier() -> None:
    net = tasknorm.nets.protonets_conv4(NORMS["LN"], filters=4)
    with pytest.raises(ValueError, match="Conv4 has no module `classifier` with weights"):
        MAML(net, anil=True)


def test_options_are_settings() -> None:
    settings = tasknorm.settings.Settings.of({"learner": "maml", "anil": True})
    assert settings.own.anil is True
    with pytest.raises(tasknorm.errors.SettingsError, match="step_norms=True contradicts anil=True"):
        tasknorm.settings.Settings.of({"learner": "maml", "anil": True, "step_norms": True})
    with pytest.raises(tasknorm.errors.SettingsError, match="compile=True contradicts anil=True"):
        tasknorm.settings.Settings.of({"learner": "maml", "anil": True, "compile": True})

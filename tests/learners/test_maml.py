"""MAML: the reference's loss, both orders, running moments, and what the norms do to it."""

from __future__ import annotations

import copy
from functools import partial
from itertools import accumulate

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import tasknorm
from support.glyph_tasks import episode, episodes
from support.small_learners import fresh, trained
from tasknorm import NORMS, Episode
from tasknorm.learners import MAML
from tasknorm.nets import maml_omniglot

LR = 0.05


def learner(label: str = "TaskNorm-I", **options: object) -> MAML:
    torch.manual_seed(0)
    norm = partial(NORMS[label], affine="offset", eps=1e-3)
    net = maml_omniglot(norm, filters=6, image_shape=(1, 28, 28)).double()
    return MAML(net, inner_lr=LR, **options)


def double(task: Episode) -> Episode:
    return Episode(task.context_x.double(), task.context_y, task.target_x.double(), task.target_y)


def reference_weights(net: nn.Module, task: Episode, steps: int, first_order: bool) -> dict[str, torch.Tensor]:
    """The inner loop written out for one task."""
    shot = len(task.context_y) / task.way
    names = [name for name, _ in net.named_parameters() if ".norm." not in name]
    weights = {name: net.get_parameter(name) for name in names}
    for _ in range(steps):
        with tasknorm.context(net):
            moments = {name: buffer.clone() for name, buffer in net.named_buffers()}
            logits = functional_call(net, weights | moments, (task.context_x,))
        loss = F.cross_entropy(logits, task.context_y, reduction="sum") / shot
        gradients = torch.autograd.grad(loss, list(weights.values()), create_graph=not first_order)
        weights = {name: w - LR * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
    return weights


def reference_loss(net: nn.Module, task: Episode, steps: int, first_order: bool) -> torch.Tensor:
    """The algorithm written out for one task, with a joint pass wherever the norms are."""
    weights = reference_weights(net, task, steps, first_order)
    with tasknorm.joint(net, len(task.context_y)):
        logits = functional_call(net, weights, (torch.cat((task.context_x, task.target_x)),))
    shot = len(task.context_y) / task.way
    return F.cross_entropy(logits[len(task.context_y) :], task.target_y, reduction="sum") / shot


@pytest.mark.parametrize("label", ["TBN", "CBN", "TaskNorm-I", "LN"])
@pytest.mark.parametrize("first_order", [True, False], ids=["first order", "second order"])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("at_once", [None, 2, 1])
def test_losses_and_gradients(label: str, first_order: bool, steps: int, at_once: int | None) -> None:
    model = learner(label, inner_steps=steps, first_order=first_order, at_once=at_once)
    net = copy.deepcopy(model.net)
    tasks = [double(task) for task in episodes(0, 3, shot=2)]
    losses = model.learn(tasks).losses
    losses.mean().backward()
    expected = torch.stack([reference_loss(net, task, steps, first_order) for task in tasks])
    torch.testing.assert_close(losses, expected)
    expected.mean().backward()
    for (name, ours), theirs in zip(model.net.named_parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-6, atol=1e-8, msg=name)


@pytest.mark.parametrize(("shot", "at_once", "passes"), [(2, None, 2), (5, None, 6), (5, 3, 2)])
def test_tasks_with_large_contexts_run_one_at_a_time_unless_asked(shot: int, at_once: int | None, passes: int) -> None:
    model, together = learner("TaskNorm-I", at_once=at_once), learner("TaskNorm-I", at_once=3)
    tasks = [double(task) for task in episodes(0, 3, shot=shot)]
    seen: list[int] = []
    model.net.register_forward_pre_hook(lambda _, images: seen.append(len(images[0])))
    losses = model.learn(tasks).losses
    assert len(seen) == passes  # of the contexts, then of contexts and targets
    torch.testing.assert_close(losses, together.learn(tasks).losses)


@pytest.mark.parametrize("label", ["CBN", "TaskNorm-I"])
def test_orders_agree_on_losses_and_running_moments(label: str) -> None:
    """They differ in their gradients alone; second order has kernels of its own for CBN."""
    first, second = (learner(label, inner_steps=2, first_order=order) for order in (True, False))
    tasks = [double(task) for task in episodes(0, 3, shot=2)]
    torch.testing.assert_close(*(model.learn(tasks).losses for model in (first, second)))
    torch.testing.assert_close(first.state_dict(), second.state_dict())


@pytest.mark.parametrize("label", ["CBN", "TaskNorm-I"])
def test_the_memory_of_second_order_is_bounded_by_the_tasks_at_once(label: str) -> None:
    tasks = [double(task) for task in episodes(0, 8, shot=2)]
    few, many, all_of_them = (
        peak_bytes(learner(label, inner_steps=3, first_order=False, at_once=at_once), tasks[:count])
        for at_once, count in ((2, 2), (2, 8), (8, 8))
    )
    assert many < 1.3 * few  # what stays of each group is its images and the gradients
    assert all_of_them > 2 * few


def peak_bytes(model: MAML, tasks: list[Episode]) -> int:
    """The most memory that a meta-iteration holds at once."""
    model.learn(tasks).losses.mean().backward()  # fills the scratch memory, which stays
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        model.learn(tasks).losses.mean().backward()
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))


def test_a_net_of_other_layers_runs_one_task_at_a_time() -> None:
    model = learner("CBN")
    other = copy.deepcopy(model)
    classifier = nn.Linear(6, 5).double()
    classifier.load_state_dict(other.net.classifier.state_dict())
    other.net.classifier = classifier
    tasks = [double(task) for task in episodes(0, 3)]
    torch.testing.assert_close(other.learn(tasks).losses, model.learn(tasks).losses)
    torch.testing.assert_close(other.state_dict(), model.state_dict())


def test_norm_parameters_are_the_outer_loops() -> None:
    model = trained("maml", "TaskNorm-I")
    task = episode(0)
    adapted, initial = model.adapt(task.context_x, task.context_y).net.state_dict(), model.net.state_dict()
    for name, _ in model.net.named_parameters():
        assert torch.equal(adapted[name], initial[name]) is (".norm." in name)


@pytest.mark.parametrize("label", ["CBN", "TaskNorm-r", "BRN"])
@pytest.mark.parametrize("steps", [1, 3])
def test_running_moments_are_updated_once(label: str, steps: int) -> None:
    """Context at the initial weights, averaged over tasks; then, but for TaskNorm-r, targets at the adapted ones."""
    model = learner(label, inner_steps=steps)
    first = model.net.blocks[0]
    tasks = [double(task) for task in episodes(0, 3)]
    adapted = [reference_weights(model.net, task, steps, first_order=True) for task in tasks]
    model.learn(tasks)
    passes = [[first.conv(task.context_x) for task in tasks]]
    if label != "TaskNorm-r":
        conv = [{"weight": w["blocks.0.conv.weight"], "bias": w["blocks.0.conv.bias"]} for w in adapted]
        passes.append([functional_call(first.conv, w, (t.target_x,)) for w, t in zip(conv, tasks, strict=True)])
    mean, var = torch.zeros(6).double(), torch.ones(6).double()
    for activations in passes:
        mean = 0.9 * mean + 0.1 * torch.stack([a.mean((0, 2, 3)) for a in activations]).mean(0)
        var = 0.9 * var + 0.1 * torch.stack([a.var((0, 2, 3)) for a in activations]).mean(0)
    assert first.norm.num_batches_tracked == len(passes)
    torch.testing.assert_close(first.norm.running_mean, mean.detach())
    torch.testing.assert_close(first.norm.running_var, var.detach())


def test_running_moments_do_not_depend_on_how_tasks_are_grouped() -> None:
    together, apart = learner("CBN"), learner("CBN", at_once=1)
    tasks = [double(task) for task in episodes(0, 3)]
    together.learn(tasks)
    apart.learn(tasks)
    torch.testing.assert_close(together.state_dict(), apart.state_dict())


def test_logits_after_each_step() -> None:
    model = trained("maml", "TaskNorm-I")
    tasks = episodes(1, 3)
    logits = model.steps(tasks, 4)
    assert [tuple(task.shape) for task in logits] == [(4, 15, 5)] * 3
    model.test_steps = 2
    torch.testing.assert_close(logits[1][1], model(tasks[1]).detach(), rtol=1e-3, atol=1e-3)


def test_tbn_needs_its_targets_together_and_task_norm_does_not() -> None:
    tasks = episodes(777, 10)
    results = {}
    for label in ("TBN", "TaskNorm-I"):
        model = trained("maml", label)
        together, alone = [], []
        for task in tasks:
            predictor = model.adapt(task.context_x, task.context_y)
            together.append(predictor.predict(task.target_x))
            alone.append(torch.cat([predictor.predict(x[None]) for x in task.target_x]))
        labels = torch.cat([task.target_y for task in tasks])
        results[label] = [(torch.cat(p) == labels).double().mean().item() for p in (together, alone)]
        if label == "TaskNorm-I":
            assert torch.equal(torch.cat(together), torch.cat(alone))
    assert results["TBN"][0] > 0.7
    assert results["TBN"][1] < 0.45
    assert results["TaskNorm-I"][1] > 0.7


def test_adapts_without_gradients_and_in_inference_mode() -> None:
    model, task = trained("maml", "TaskNorm-I"), episode(0)
    expected = model(task).detach()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(model(task), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the compiler, of itself
def test_compiled_equals_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    eager = learner("TaskNorm-I")
    tasks = [double(task) for task in episodes(0, 2)]
    compiled = copy.deepcopy(eager)
    compiled.compiled = True
    torch._dynamo.reset()
    front_end = torch.compile(functional_call, dynamic=False, backend="aot_eager")  # the rest of it takes minutes
    monkeypatch.setattr("tasknorm.learners.inner_loop._compiled_call", lambda: front_end)
    for model in (eager, compiled):
        model.learn(tasks).losses.mean().backward()
    for ours, theirs in zip(compiled.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    torch._dynamo.reset()


def test_more_ways_than_the_classifier_are_refused() -> None:
    model, task = fresh("maml", "LN"), episode(0, way=6)
    for call in (lambda: model(task), lambda: model.adapt(task.context_x, task.context_y)):
        with pytest.raises(
            ValueError, match="the task has 6 classes, but the net's classifier has 5 outputs; make the net with way=6"
        ):
            call()


def test_fewer_ways_than_the_classifier_are_served() -> None:
    assert trained("maml", "LN")(episode(0, way=3)).shape == (9, 5)


@pytest.mark.parametrize("options", [{"inner_steps": 0}, {"test_steps": 0}, {"at_once": 0}])
def test_settings_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        learner(**options)


def test_the_compiler_has_no_second_order() -> None:
    with pytest.raises(ValueError, match="needs first_order=True"):
        learner(first_order=False, compiled=True)

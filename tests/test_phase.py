"""What a phase allows, keeps and refuses."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import pytest
import torch
from torch import nn

import tasknorm
from support.random_norm import random_norm, random_task
from tasknorm import NORMS, PhaseError
from tasknorm.phase import release, target_for_life

NEEDING = [label for label in NORMS if NORMS[label].needs_context]


def model() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 4, 3), NORMS["TaskNorm-I"](4), nn.Conv2d(4, 4, 1), NORMS["MetaBN"](4))


def images(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 6, 6, generator=torch.Generator().manual_seed(count))


@pytest.mark.parametrize("label", NEEDING)
def test_targets_before_any_context(label: str) -> None:
    norm = random_norm(label).eval()
    with pytest.raises(PhaseError, match=rf"{label} was given targets before any context; first pass the context set"):
        with tasknorm.target(norm):
            norm(random_task()[1])
    assert norm.phase is None


def test_a_norm_that_is_not_used_needs_no_context() -> None:
    net = model()
    first = net[:2]
    with tasknorm.context(net):
        first(images(5))
    with tasknorm.target(net):
        assert first(images(1)).shape == (1, 4, 4, 4)


def test_phases_do_not_nest_and_the_outer_one_goes_on() -> None:
    net = model()
    with tasknorm.context(net):
        with pytest.raises(PhaseError, match=r"phases do not nest: target\(\) was entered inside context\(\)"):
            with tasknorm.target(net[1]):
                pass
        net(images(5))
    with tasknorm.target(net):
        net(images(1))


def test_a_model_without_norms() -> None:
    with pytest.raises(PhaseError, match=r"Conv2d has none; swap them in first: model = tasknorm.convert"):
        with tasknorm.context(nn.Conv2d(3, 3, 3)):
            pass


@pytest.mark.parametrize(("size", "tasks"), [(0, 1), (-1, 1), (2.0, 1), (True, 1), (2, 0)])
def test_joint_refuses_sizes_that_are_no_positive_integers(size, tasks) -> None:
    with pytest.raises(ValueError, match="must be a positive integer, got"):
        with tasknorm.joint(model(), context_size=size, tasks=tasks):
            pass


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"context_size": 2, "tasks": 4}, r"a batch of 10 does not divide by tasks=4"),
        ({"context_size": 10}, r"context_size must be from 1 to 9 for 10 examples a task, got 10"),
        ({"context_size": 5, "tasks": 2}, r"context_size must be from 1 to 4 for 5 examples a task, got 5"),
    ],
)
@pytest.mark.parametrize("label", NORMS)
def test_joint_refuses_a_batch_that_cannot_be_divided_so(label: str, sizes, message: str) -> None:
    norm = random_norm(label)
    before = copy.deepcopy(norm.state_dict())
    with pytest.raises(ValueError, match=message), tasknorm.joint(norm, **sizes):
        norm(torch.randn(10, 6, 3, dtype=torch.float64))
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert norm.phase is None


def test_an_error_in_a_context_leaves_the_last_one_in_place() -> None:
    net = model().eval()
    with tasknorm.context(net):
        net(images(5))
    before = copy.deepcopy(net.state_dict())
    with tasknorm.target(net):
        expected = net(images(2))
    with pytest.raises(ZeroDivisionError), tasknorm.context(net):
        net(images(7))
        raise ZeroDivisionError
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with tasknorm.target(net):
        torch.testing.assert_close(net(images(2)), expected)


@pytest.mark.parametrize("name", ["alpha_scale", "alpha_offset"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("form", ["functional-shared", "functional-channel"])
def test_alpha_that_is_not_finite_is_found_on_entering(name: str, value: float, form: str) -> None:
    first, second = (NORMS["TaskNorm-I"](4, alpha=form) for _ in range(2))
    getattr(second, name).data.reshape(-1)[0] = value
    net = nn.Sequential(first, second)
    for phase in (tasknorm.context, tasknorm.target, lambda net: tasknorm.joint(net, context_size=2)):
        with pytest.raises(ValueError, match=rf"TaskNorm-I's {name} must be finite, got .*lower the learning rate"):
            with phase(net):
                pass
    assert first.phase is None


def test_a_second_pass_in_one_context_is_refused_and_the_last_context_stays() -> None:
    net = model().eval()
    with tasknorm.context(net):
        net(images(5))
    with pytest.raises(PhaseError, match=r"TaskNorm-I \('1'\) was called twice in one context phase"):
        with tasknorm.context(net):
            net(images(3))
            net(images(7))
    assert net[1].context_size == 5


def test_the_context_is_kept_detached_and_counted() -> None:
    net = model()
    assert net[1].context_size == 0
    with tasknorm.context(net):
        features = net[0](images(5))
        net[1:](features)
    assert net[1].context_size == 5
    assert not net[1].context_mean.requires_grad
    torch.testing.assert_close(net[1].context_mean, features.mean((0, 2, 3)).detach())
    torch.testing.assert_close(net[1].context_var, features.var((0, 2, 3), correction=0).detach())


@pytest.mark.parametrize("label", NORMS)
def test_target_sets_that_pass_together_are_as_if_each_came_alone(label: str) -> None:
    norm = random_norm(label).eval()
    context, targets = random_task()
    targets = torch.cat((targets, targets.flip(0) + 1, 2 * targets))
    with tasknorm.context(norm):
        norm(context)
    with tasknorm.target(norm, sets=3):
        together = norm(targets)
    for rows, part in zip(together.chunk(3), targets.chunk(3), strict=True):
        with tasknorm.target(norm):
            torch.testing.assert_close(rows, norm(part))
    with pytest.raises(ValueError, match="sets must be a positive integer, got 0"):
        with tasknorm.target(norm, sets=0):
            pass


def test_joint_stores_nothing() -> None:
    net = model()
    before = copy.deepcopy(net.state_dict())
    with tasknorm.joint(net, context_size=3):
        net(images(5))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    with pytest.raises(PhaseError, match="before any context"), tasknorm.target(net):
        net(images(1))


@pytest.mark.parametrize("reloaded", [False, True])
def test_one_backward_may_follow_several_tasks_of_a_frozen_network(reloaded: bool) -> None:
    """Only alpha is learned, as in CNAPs: the moments have no graph, and still must outlive the next context."""
    net = NORMS["TaskNorm-I"](3)
    net.weight.requires_grad_(False)
    net.bias.requires_grad_(False)
    losses = []
    for size in (5, 7):
        with tasknorm.context(net):
            net(images(size))
        if reloaded:
            saved = {name: value.clone() for name, value in net.state_dict().items() if name.startswith("context")}
            net.load_state_dict(saved, strict=False)
        with tasknorm.target(net):
            losses.append(net(images(2)).square().sum())
    sum(losses).backward()
    assert torch.isfinite(net.alpha_scale.grad)


def test_a_norm_used_in_two_places_is_exact_in_joint() -> None:
    norm = NORMS["MetaBN"](4).double()
    net = nn.Sequential(norm, nn.Tanh(), norm)
    context, target = (torch.randn(n, 4, 3, dtype=torch.float64) for n in (5, 2))
    with tasknorm.joint(net, context_size=5):
        output = net(torch.cat([context, target]))

    def normalised(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        mean, var = by.mean((0, 2), keepdim=True), by.var((0, 2), correction=0, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5)

    first_context, first_target = (normalised(x, context).tanh() for x in (context, target))
    torch.testing.assert_close(output[5:], normalised(first_target, first_context), rtol=0, atol=1e-12)


@pytest.mark.parametrize("phase", [tasknorm.context, tasknorm.target, lambda net: tasknorm.joint(net, context_size=2)])
def test_the_model_is_handed_back(phase) -> None:
    net = model()
    with phase(net) as same:
        assert same is net


class TestThreads:
    def test_a_phase_of_another_thread_is_a_clear_error(self) -> None:
        net = model()
        caught: list[Exception] = []

        def enter() -> None:
            try:
                with tasknorm.target(net):
                    pass
            except PhaseError as error:
                caught.append(error)

        with tasknorm.context(net):
            thread = Thread(target=enter)
            thread.start()
            thread.join()
            net(images(5))
        assert len(caught) == 1
        assert "another thread is inside context() of the same model" in str(caught[0])
        assert "copy.deepcopy(model), or adapt a Predictor" in str(caught[0])
        assert net[1].context_size == 5

    def test_of_many_threads_that_enter_at_once_one_goes_on(self) -> None:
        """In all norms or in none: no thread takes some norms of the model and another the rest."""
        net = nn.Sequential(*(NORMS["MetaBN"](1) for _ in range(50)))
        start, leave = Barrier(8), Barrier(8)

        def enter(_: int) -> bool:
            start.wait()
            try:
                with tasknorm.context(net):
                    leave.wait()
                    return len({id(norm.phase) for norm in net}) == 1
            except PhaseError:
                leave.wait()
                return False

        with ThreadPoolExecutor(8) as pool:
            for _ in range(20):
                assert sum(pool.map(enter, range(8))) == 1
                assert all(norm.phase is None for norm in net)

    def test_each_thread_may_use_a_copy(self) -> None:
        net = model().eval()

        def adapt(size: int) -> torch.Tensor:
            own = copy.deepcopy(net)
            with tasknorm.context(own):
                own(images(size))
            with tasknorm.target(own):
                return own(images(2))

        with ThreadPoolExecutor(4) as pool:
            for size, output in zip(range(3, 11), pool.map(adapt, range(3, 11)), strict=True):
                torch.testing.assert_close(output, adapt(size), rtol=0, atol=0)


def test_for_life() -> None:
    net = model().eval()
    with tasknorm.context(net):
        net(images(5))
    with tasknorm.target(net):
        expected = net(images(2))
    target_for_life(net)
    target_for_life(net)  # of two predictors that share it
    torch.testing.assert_close(net(images(2)), expected)
    for phase in (tasknorm.context, tasknorm.target, lambda net: tasknorm.joint(net, context_size=2)):
        with pytest.raises(PhaseError, match=r"belongs to a Predictor.*copy\.deepcopy\(predictor\.net\)"), phase(net):
            pass
    with tasknorm.target(copy.deepcopy(net)) as other:
        torch.testing.assert_close(other(images(2)), expected)
    release(net)
    with tasknorm.target(net):
        torch.testing.assert_close(net(images(2)), expected)


def test_for_life_begins_in_all_norms_or_in_none() -> None:
    net = nn.Sequential(*(NORMS["TaskNorm-I"](4) for _ in range(2)))
    net[1].alpha_offset.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="must be finite"):
        target_for_life(net)
    assert net[0].phase is None

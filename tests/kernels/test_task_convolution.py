"""Convolution by windows: equal to torch's, task by task, in value and derivatives of first and second order."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tasknorm.kernels import task_products
from tasknorm.kernels.task_convolution import task_convolution
from tasknorm.kernels.windows import Windows

CASES = [
    Windows((3, 3), (2, 2), (1, 1)),
    Windows((3, 2), (1, 2), (0, 1)),
    Windows((1, 1), (2, 3), (0, 0)),  # a stride that skips pixels
    Windows((2, 3), (3, 1), (1, 0)),
]


def inputs(windows: Windows, channels: int = 2) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3 * 2, channels, 7, 6), (3, 4, channels, *windows.kernel), (3, 4)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]


def expected(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, windows: Windows) -> torch.Tensor:
    tasks = zip(x.unflatten(0, (len(weight), -1)), weight, bias, strict=True)
    return torch.cat([F.conv2d(*task, windows.stride, windows.padding) for task in tasks])


@pytest.mark.parametrize("windows", CASES)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_equals_torchs_convolution(windows: Windows, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_products, "CHUNK", chunk)
    tensors = inputs(windows)
    ours, theirs = task_convolution(*tensors, windows), expected(*tensors, windows)
    torch.testing.assert_close(ours, theirs)
    factor = torch.randn_like(theirs)
    gradients = [torch.autograd.grad((y * factor).sum(), tensors) for y in (ours, theirs)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("windows", CASES)
def test_second_derivatives(windows: Windows) -> None:
    tensors = inputs(windows, channels=1)
    assert torch.autograd.gradgradcheck(lambda *t: task_convolution(*t, windows), tensors)


@pytest.mark.parametrize("windows", CASES)
@pytest.mark.parametrize(("tasks", "chunk", "few"), [(3, 1, 1), (3, 1 << 20, 1), (1, 1, 1), (1, 1, 1 << 20)])
def test_derivatives_of_gradients(
    windows: Windows, tasks: int, chunk: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch's own, one task after the other: of images, weight and bias, from all three gradients."""
    monkeypatch.setattr(task_products, "CHUNK", chunk)
    monkeypatch.setattr(task_products, "FEW", few)
    x, weight, bias = inputs(windows)
    tensors = [t.detach()[: len(t) // 3 * tasks].requires_grad_() for t in (x, weight, bias)]
    found = []
    for convolve in (task_convolution, expected):
        y = convolve(*tensors, windows)
        first = torch.autograd.grad(y.pow(3).sum(), tensors, create_graph=True)
        found.append(torch.autograd.grad(sum(g.pow(2).sum() for g in first), tensors))
    torch.testing.assert_close(*found)


def test_without_bias_and_without_gradients_for_the_images() -> None:
    x, weight, _ = inputs(CASES[0])
    y = task_convolution(x.detach(), weight, None, CASES[0])
    torch.testing.assert_close(y, expected(x, weight, torch.zeros(3, 4, dtype=x.dtype), CASES[0]))
    y.sum().backward()
    assert weight.grad is not None
    assert x.grad is None


@pytest.mark.parametrize("windows", CASES)
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("few", [1, 1 << 20])
def test_columns_that_are_kept(
    windows: Windows, channels: int, has_bias: bool, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of images that need no gradient, with more filters than a window has numbers: as torch's, in all derivatives."""
    monkeypatch.setattr(task_products, "FEW", few)
    generator = torch.Generator().manual_seed(0)
    x, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((3 * 2, channels, 7, 6), (3, 20, channels, *windows.kernel), (3, 20))
    )
    assert task_products.keeps_columns(x, weight, windows) == (few > 1)
    tensors = [t.requires_grad_() for t in (weight, bias)]
    ours = task_convolution(x, weight, bias if has_bias else None, windows)
    theirs = expected(x, weight, bias if has_bias else torch.zeros_like(bias), windows)
    torch.testing.assert_close(ours, theirs)
    assert ours.is_contiguous(memory_format=torch.channels_last)
    factor = torch.randn_like(theirs)
    wanted = tensors if has_bias else tensors[:1]
    gradients = [torch.autograd.grad((y.square() * factor).sum(), wanted, create_graph=True) for y in (ours, theirs)]
    torch.testing.assert_close(*gradients)
    again = [torch.autograd.grad(sum(g.square().sum() for g in first), wanted) for first in gradients]
    torch.testing.assert_close(*again)


@pytest.mark.parametrize("windows", CASES)
@pytest.mark.parametrize("channels", [1, 2])
def test_a_weight_that_tasks_share_has_a_gradient_for_each(windows: Windows, channels: int) -> None:
    x, weight, bias = inputs(windows, channels)
    shared = [tensor[:1].detach().expand_as(tensor).requires_grad_() for tensor in (weight, bias)]
    own = [tensor.detach().contiguous().requires_grad_() for tensor in shared]
    ours, theirs = task_convolution(x, *shared, windows), expected(x, *own, windows)
    torch.testing.assert_close(ours, theirs)
    factor = torch.randn_like(theirs)
    ours_by, theirs_by = (torch.autograd.grad(y, (x, *at), factor) for y, at in ((ours, shared), (theirs, own)))
    torch.testing.assert_close(ours_by, theirs_by)


@pytest.mark.parametrize("windows", CASES)
def test_adapted_weights_give_their_gradient_to_the_initial_ones(windows: Windows) -> None:
    x, *adapted = inputs(windows)
    initial = [tensor[0].detach().clone().requires_grad_() for tensor in adapted]
    y = task_convolution(x, *initial, windows, *(tensor.detach() for tensor in adapted))
    theirs = expected(x, *adapted, windows)
    torch.testing.assert_close(y, theirs)
    factor = torch.randn_like(theirs)
    grad_x, *by_task = torch.autograd.grad(theirs, (x, *adapted), factor)
    sums = [gradient.sum(0) for gradient in by_task]
    for create_graph in (False, True):
        ours = torch.autograd.grad(y, (x, *initial), factor, retain_graph=True, create_graph=create_graph)
        torch.testing.assert_close(ours, (grad_x, *sums))

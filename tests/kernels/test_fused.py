"""The two fused passes against plain operations, their derivatives, and their precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, vmap

from tasknorm.kernels import passes
from tasknorm.kernels.fused import instance_moments, scale_shift
from tasknorm.kernels.tracing import snapshot

SHAPES = [(3, 4, 5), (2, 3, 4, 5), (1, 2, 2, 2, 2), (4, 3, 1)]
TABLES = [((3, 4), (3, 4), (4,)), ((1, 4), (1, 4), (4,)), ((3, 1), (3, 4), (1,)), ((4,), (4,), (3, 4))]


def moments_only(a: Tensor) -> tuple[Tensor, Tensor]:
    return tuple(instance_moments(a)[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_instance_moments_are_torchs(shape: tuple[int, ...]) -> None:
    a = torch.randn(shape, dtype=torch.float64)
    same, (mean, var) = instance_moments(a)
    space = tuple(range(2, len(shape)))
    torch.testing.assert_close(same, a, rtol=0, atol=0)
    torch.testing.assert_close(mean, a.mean(space))
    torch.testing.assert_close(var, a.var(space, correction=0))


@pytest.mark.parametrize("tables", TABLES)
def test_scale_shift_broadcasts(tables) -> None:
    a = torch.randn(3, 4, 5, dtype=torch.float64)
    mean, scale, shift = (torch.randn(shape, dtype=torch.float64) for shape in tables)
    expected = (a - mean[..., None]) * scale[..., None] + shift[..., None]
    torch.testing.assert_close(scale_shift(a, mean, scale, shift), expected)


def passed_and_moments(a: Tensor) -> Tensor:
    """Uses all that instance_moments returns, so that all gradients meet."""
    passed, (mean, var) = instance_moments(a)
    return passed.flatten(2).sin() * mean[..., None] + var[..., None]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", [moments_only, passed_and_moments])
def test_derivatives_of_instance_moments(shape: tuple[int, ...], function) -> None:
    a = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert gradcheck(function, (a,))
    assert gradgradcheck(function, (a,))


@pytest.mark.parametrize("tables", TABLES)
@pytest.mark.parametrize("layout", ["native", "strided"])
def test_derivatives_of_scale_shift(tables, layout: str) -> None:
    a = torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)
    arguments = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in tables]
    function = scale_shift if layout == "native" else lambda a, *tables: scale_shift(a.mT.contiguous().mT, *tables)
    assert gradcheck(function, (a, *arguments))
    assert gradgradcheck(function, (a, *arguments))


@pytest.mark.parametrize("shape", [(1, 1), (1,), (1, 7)])
def test_one_example_with_tables_that_broadcast(shape: tuple[int, ...]) -> None:
    """The native kernels read memory as it lies; a broadcast table must be laid out for them."""
    a = torch.randn(1, 7, 1, dtype=torch.float64, requires_grad=True)
    tables = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    weight = torch.randn(1, 7, 1, dtype=torch.float64)
    expected = (a - tables[0][..., None]) * tables[1][..., None] + tables[2][..., None]
    ours = scale_shift(a, *tables)
    torch.testing.assert_close(ours, expected)
    for mine, theirs in zip(
        torch.autograd.grad((ours * weight).sum(), (a, *tables)),
        torch.autograd.grad((expected * weight).sum(), (a, *tables)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("in_dims", [(0, 0, 0, 0), (1, None, 0, None), (None, 0, None, 0), (3, None, None, 0)])
def test_vmap(in_dims: tuple[int | None, ...]) -> None:
    shapes = [(2, 4, 5), (2, 4), (1, 4), (4,)]
    arguments = [
        torch.randn(shape if dim is None else (*shape[:dim], 3, *shape[dim:]), dtype=torch.float64)
        for shape, dim in zip(shapes, in_dims, strict=True)
    ]
    result = vmap(scale_shift, in_dims)(*arguments)
    for i in range(3):
        one = [x if dim is None else x.select(dim, i) for x, dim in zip(arguments, in_dims, strict=True)]
        torch.testing.assert_close(result[i], scale_shift(*one))
        if in_dims[0] is not None:
            means, variances = vmap(moments_only, in_dims[0])(arguments[0])
            torch.testing.assert_close((means[i], variances[i]), moments_only(one[0]))


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
def test_precise_far_from_zero(offset: float) -> None:
    """Variance and gradients of float32 activations with a mean far above their deviation are still good."""
    generator = torch.Generator().manual_seed(0)
    a = (torch.randn(4, 3, 28, 28, generator=generator) + offset).requires_grad_()
    exact = a.detach().double().requires_grad_()
    weight = torch.randn(4, 3, 28, 28, generator=generator)
    for x in (a, exact):
        passed, (mean, var) = instance_moments(x)
        (scale_shift(passed, mean, torch.rsqrt(var + 1e-5), var.new_zeros(1)) * weight).sum().backward()
    reference = exact.detach().var((2, 3), correction=0).float()
    torch.testing.assert_close(moments_only(a.detach())[1], reference, rtol=2e-6 * (1 + offset**0.5), atol=0)
    torch.testing.assert_close(a.grad, exact.grad.float(), rtol=1e-4, atol=1e-5 * (1 + offset**0.5))


def test_large_activations_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    a = torch.randn(7, 3, 4, 4, dtype=torch.float64)
    whole = moments_only(a)
    monkeypatch.setattr(passes, "_CHUNK", 50)
    torch.testing.assert_close(moments_only(a), whole, rtol=0, atol=0)


def test_the_gradient_of_the_activation_is_not_written_to() -> None:
    """The backward pass reuses a gradient's memory; it must be its own, never the caller's."""
    a = torch.randn(2, 3, 4, requires_grad=True)
    passed, (mean, var) = instance_moments(a)
    output = scale_shift(passed, mean, var, mean.new_zeros(1))
    cotangent = torch.randn_like(output)
    before = cotangent.clone()
    output.backward(cotangent)
    assert torch.equal(cotangent, before)


def test_snapshot_survives_a_change_of_its_source_in_compiled_gradients() -> None:
    def function(x: Tensor, weight: Tensor, buffer: Tensor) -> Tensor:
        mixed = torch.lerp(snapshot(buffer), x, weight)
        buffer.copy_(x.detach() * 2)
        return mixed.square().sum()

    results = []
    for call in (function, torch.compile(function, fullgraph=True, backend="aot_eager")):
        x, weight = torch.arange(3.0, requires_grad=True), torch.tensor(0.3, requires_grad=True)
        call(x, weight, torch.ones(3)).backward()
        results.append((x.grad, weight.grad))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_moments_have_the_derivatives_of_eager_ones(shape: tuple[int, ...]) -> None:
    def value(a: Tensor) -> Tensor:
        mean, var = moments_only(a)
        return (mean * var.sin()).sum() + (var * var).sum()

    def derivatives(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return value(a), grad(value)(a), grad(lambda b: grad(value)(b).square().sum())(a)

    a = torch.randn(shape, dtype=torch.float64)
    compiled = torch.compile(derivatives, fullgraph=True, backend="aot_eager", dynamic=False)
    torch.testing.assert_close(compiled(a), derivatives(a), rtol=1e-12, atol=1e-12)


def test_compiled_moments_of_a_large_mean_are_exact() -> None:
    a = 1e4 + torch.randn(2, 3, 50)
    mean, var = torch.compile(moments_only, fullgraph=True, backend="aot_eager")(a)
    torch.testing.assert_close(mean.double(), a.double().mean(2), rtol=1e-6, atol=0)
    torch.testing.assert_close(var.double(), a.double().var(2, correction=0), rtol=1e-3, atol=0)

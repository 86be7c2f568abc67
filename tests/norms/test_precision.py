"""Laws of number formats: context moments in float32 or better, nothing lost on the way, nothing NaN that overflows."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import tasknorm
from support.random_norm import CHANNELS, random_norm, random_task
from tasknorm import NORMS

norms = pytest.mark.parametrize("label", NORMS)
modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
halves = pytest.mark.parametrize("half", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
sizes = pytest.mark.parametrize("size", [1e19, 1e25, 1e30])


def exported(model: nn.Module) -> Callable[[Tensor], Tensor]:
    batch = torch.export.Dim("batch", min=1, max=64)
    example = torch.zeros(2, CHANNELS, 4, 4, dtype=model.running_mean.dtype)
    with tasknorm.target(model), torch.no_grad():
        return torch.export.export(model, (example,), dynamic_shapes=({0: batch},)).module()


def reloaded(model: nn.Module, **options: bool) -> nn.Module:
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = copy.deepcopy(model)
    other.context_size.zero_()
    other.load_state_dict(torch.load(file, weights_only=True), **options)
    return other


def with_halved_moments(model: nn.Module) -> nn.Module:
    """As if loaded from a file that keeps all in one dtype; for values that do not overflow in it."""
    halved = {
        name: t.to(model.running_mean.dtype) if t.is_floating_point() else t for name, t in model.state_dict().items()
    }
    other = copy.deepcopy(model)
    other.load_state_dict(halved, assign=True)
    return other


WAYS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "as it is": lambda model: model,
    "copied": copy.deepcopy,
    "reloaded": reloaded,
    "reloaded by assignment": lambda model: reloaded(model, assign=True),
    "there and back": lambda model: copy.deepcopy(model).double().to(model.running_mean.dtype),
}


def task(scale: float = 1.0) -> tuple[Tensor, Tensor]:
    context, target = random_task(5, 3, (4, 4), dtype=torch.float32)
    return context * scale, target * scale


def prediction(model: nn.Module, target: Tensor) -> Tensor:
    with tasknorm.target(model), torch.no_grad():
        output: Tensor = model(target)
    return output


@norms
@halves
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scale", [1.0, 400.0], ids=["usual", "variance above fp16"])
def test_a_stored_context_serves_in_half_precision(label: str, half: torch.dtype, way: str, scale: float) -> None:
    """As the same norm in float32, but for the rounding of the output."""
    norm = random_norm(label, dtype=half).eval()
    context, target = (x.to(half) for x in task(scale))
    with tasknorm.context(norm):
        norm(context)
    same = copy.deepcopy(norm).float()
    with tasknorm.context(same):
        same(context.float())
    expected = prediction(same, target.float())
    output = prediction(WAYS[way](norm), target)
    assert output.dtype == half
    torch.testing.assert_close(output.float(), expected, rtol=0.01, atol=0.01)


@norms
@halves
def test_a_context_in_float32_serves_after_a_cast(label: str, half: torch.dtype) -> None:
    norm = random_norm(label, dtype=torch.float32).eval()
    context, target = task(400.0)
    with tasknorm.context(norm):
        norm(context)
    expected = prediction(norm, target)
    mean, var = norm.context_mean.clone(), norm.context_var.clone()
    norm.to(half)
    assert torch.equal(norm.context_mean, mean)
    assert torch.equal(norm.context_var, var)
    torch.testing.assert_close(prediction(norm, target.to(half)).float(), expected, rtol=0.03, atol=0.03)


@norms
@halves
def test_moments_loaded_in_half_precision_serve(label: str, half: torch.dtype) -> None:
    norm = random_norm(label, dtype=half).eval()
    context, target = (x.to(half) for x in task())
    with tasknorm.context(norm):
        norm(context)
    torch.testing.assert_close(
        prediction(with_halved_moments(norm), target), prediction(norm, target), rtol=0.03, atol=0.03
    )


@norms
@halves
def test_export_in_half_precision(label: str, half: torch.dtype) -> None:
    norm = random_norm(label, dtype=half).eval()
    context, target = (x.to(half) for x in task(400.0))
    with tasknorm.context(norm):
        norm(context)
    torch.testing.assert_close(exported(norm)(target), prediction(norm, target), rtol=0.01, atol=0.01)


@norms
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_context_moments_are_kept_in_float32_or_better(label: str, dtype: torch.dtype) -> None:
    kept = torch.promote_types(dtype, torch.float32)
    for norm in (NORMS[label](4, dtype=dtype), NORMS[label](4).to(dtype), NORMS[label](4, device="meta").to(dtype)):
        assert norm.running_mean.dtype == dtype
        assert norm.context_mean.dtype == norm.context_var.dtype == kept
    empty = NORMS[label](4, device="meta").to(dtype).to_empty(device="cpu")
    assert empty.context_var.dtype == kept
    assert empty.context_var.device.type == "cpu"


@norms
@modes
@halves
def test_half_precision_loses_no_more_than_its_own_rounding(label: str, training: bool, half: torch.dtype) -> None:
    """Also far from zero, where moments in half precision would lose the whole signal."""
    norm = random_norm(label, dtype=half).train(training)
    norm.running_mean.fill_(100.0)
    x = (torch.cat(task()) + 100).to(half)
    same, reference = copy.deepcopy(norm).float(), x.float()
    with tasknorm.joint(norm, context_size=5), tasknorm.joint(same, context_size=5):
        torch.testing.assert_close(norm(x).float(), same(reference), rtol=0.01, atol=0.01)


@norms
@modes
@sizes
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
def test_what_overflows_becomes_zero_as_in_batch_norm(
    label: str, training: bool, size: float, layout: torch.memory_format
) -> None:
    norm = random_norm(label, dtype=torch.float32, affine=False).train(training)
    x = (torch.cat(task()) * size).to(memory_format=layout)
    assert torch.equal(nn.BatchNorm2d(CHANNELS, affine=False)(x), torch.zeros_like(x))
    joint, two = x.clone().requires_grad_(), x.clone().requires_grad_()
    for _ in range(2):  # the second pass meets infinite running moments
        with tasknorm.joint(norm, context_size=5):
            outputs = [norm(joint)]
        with tasknorm.context(norm):
            outputs.append(norm(two[:5]))
        with tasknorm.target(norm):
            outputs.append(norm(two[5:]))
    sum(output.sin().sum() for output in outputs).backward()  # type: ignore[union-attr]
    by_running_moments = label == "Baseline" or (label in ("CBN", "BRN") and not training)
    for tensor in (*outputs, joint.grad, two.grad):
        assert tensor is not None
        assert torch.isfinite(tensor).all() if by_running_moments else (tensor == 0).all()
    assert not torch.isnan(norm.running_var).any()
    assert not torch.isnan(norm.context_var).any()


@norms
@modes
def test_compiled_what_overflows_becomes_zero(label: str, training: bool) -> None:
    torch._dynamo.reset()
    norm = random_norm(label, dtype=torch.float32, affine=False).train(training)
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    with tasknorm.joint(norm, context_size=5):
        output = compiled(torch.cat(task()) * 1e25)
    by_running_moments = label == "Baseline" or (label in ("CBN", "BRN") and not training)
    assert torch.isfinite(output).all() if by_running_moments else (output == 0).all()


@norms
@pytest.mark.parametrize("bad", [1e25, torch.inf, torch.nan])
def test_a_bad_target_does_not_spoil_the_others(label: str, bad: float) -> None:
    """Not in a joint pass either, where all examples pass together."""
    norm = random_norm(label, dtype=torch.float32).eval()
    context, target = task()
    spoilt = torch.cat((target, torch.full_like(target[:1], bad)))
    with tasknorm.joint(norm, context_size=5):
        expected, output = norm(torch.cat((context, target)))[:5], norm(torch.cat((context, spoilt)))
    torch.testing.assert_close(output[:5], expected)
    if not NORMS[label].transductive:
        assert torch.isfinite(output[:-1]).all()


@norms
@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_numbers_that_are_none_are_not_hidden(label: str, bad: float) -> None:
    norm = random_norm(label, dtype=torch.float32).train()
    context, target = task()
    context[0, 0, 0, 0] = bad
    with tasknorm.joint(norm, context_size=5):
        assert norm(torch.cat((context, target)))[0, 0].isnan().any() or label == "Baseline"

"""Laws that every entry of NORMS obeys: adding a norm adds its tests."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

import tasknorm
from support.random_norm import CHANNELS, one_pass, random_norm, random_task, two_passes
from tasknorm import NORMS

norms = pytest.mark.parametrize("label", NORMS)
modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])


def gradients(norm: tasknorm.Norm, output: Tensor, *inputs: Tensor) -> list[Tensor]:
    weight = torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view_as(output)
    return list(torch.autograd.grad((output * weight).sum(), [*inputs, *norm.parameters()], materialize_grads=True))


@norms
def test_states_its_label_and_what_it_needs(label: str) -> None:
    assert NORMS[label].label == label
    assert NORMS[label].transductive is (label == "TBN")
    assert NORMS[label].needs_context is (label in ("RN", "MetaBN", "TaskNorm-I", "TaskNorm-L", "TaskNorm-r"))
    assert "**Transductive: " in (NORMS[label].__doc__ or "")


@norms
@modes
def test_the_order_of_the_context_changes_nothing(label: str, training: bool) -> None:
    norm = random_norm(label).train(training)
    (context, target), order = random_task(), torch.tensor([2, 0, 3, 1])
    first = two_passes(copy.deepcopy(norm), (context, target))
    second = two_passes(copy.deepcopy(norm), (context[order], target))
    torch.testing.assert_close(second[0], first[0][order], rtol=0, atol=1e-12)
    torch.testing.assert_close(second[1], first[1], rtol=0, atol=1e-12)


@norms
def test_a_target_sees_the_other_targets_at_meta_test_only_if_the_norm_says_so(label: str) -> None:
    norm = random_norm(label).eval()
    context, target = random_task()
    together = two_passes(norm, (context, target))[1]
    alone = torch.cat([two_passes(norm, (context, one))[1] for one in target.split(1)])
    assert torch.allclose(alone, together, rtol=0, atol=1e-12) is not NORMS[label].transductive


@norms
def test_a_target_sees_the_context_at_meta_test_only_if_the_norm_needs_it(label: str) -> None:
    norm = random_norm(label).eval()
    context, target = random_task()
    changed = two_passes(norm, (context * 3 - 1, target))[1]
    assert torch.allclose(changed, two_passes(norm, (context, target))[1]) is not NORMS[label].needs_context


@norms
@modes
def test_joint_gives_what_two_passes_give(label: str, training: bool) -> None:
    once, twice = random_norm(label).train(training), random_norm(label).train(training)
    context, target = (x.requires_grad_() for x in random_task())
    joint, two = one_pass(once, (context, target)), torch.cat(two_passes(twice, (context, target)))
    torch.testing.assert_close(joint, two, rtol=0, atol=1e-12)
    for a, b in zip(gradients(once, joint, context, target), gradients(twice, two, context, target), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(once.running, twice.running, rtol=0, atol=1e-12)


@norms
@modes
def test_many_tasks_at_once_give_what_one_at_a_time_gives(label: str, training: bool) -> None:
    norm = random_norm(label).train(training)
    tasks = [tuple(x.requires_grad_() for x in random_task(seed=seed)) for seed in range(3)]
    inputs = [x for task in tasks for x in task]
    together = copy.deepcopy(norm)
    all_at_once = one_pass(together, *tasks)
    separate = [copy.deepcopy(norm) for _ in tasks]
    one_by_one = torch.cat([one_pass(each, task) for each, task in zip(separate, tasks, strict=True)])
    torch.testing.assert_close(all_at_once, one_by_one, rtol=0, atol=1e-12)
    weight = torch.linspace(-1, 2, all_at_once.numel(), dtype=torch.float64).view_as(all_at_once)
    expected = torch.autograd.grad((one_by_one * weight).sum(), inputs)
    for a, b in zip(torch.autograd.grad((all_at_once * weight).sum(), inputs), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@norms
@modes
def test_gradients_flow_from_the_targets_into_the_context(label: str, training: bool) -> None:
    """In two passes and in one, exactly if the norm normalises the targets with the context."""
    norm = random_norm(label).train(training)
    context, target = (x.requires_grad_() for x in random_task())
    flows = NORMS[label].needs_context and not (label == "RN" and training)
    for output in (two_passes(norm, (context, target))[1], one_pass(norm, (context, target))[len(context) :]):
        (grad,) = torch.autograd.grad(output.square().sum(), [context], allow_unused=True, materialize_grads=True)
        assert bool(grad.abs().max() > 1e-3) is flows


@norms
@modes
def test_gradcheck(label: str, training: bool) -> None:
    if label == "BRN" and training:
        pytest.skip("r and d are constants to its gradient by definition, which finite differences cannot know")
    norm = random_norm(label).train(training)
    context, target = (x.requires_grad_() for x in random_task(2, 2, (3,)))

    def function(context: Tensor, target: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(dict(norm.named_parameters()), parameters, strict=True))
        state = {name: buffer.clone() for name, buffer in norm.named_buffers()}
        with tasknorm.joint(norm, context_size=2):
            return torch.func.functional_call(norm, named | state, (torch.cat([context, target]),))

    parameters = [parameter.detach().clone().requires_grad_() for parameter in norm.parameters()]
    assert torch.autograd.gradcheck(function, (context, target, *parameters))
    assert torch.autograd.gradgradcheck(function, (context, target, *parameters))


@norms
@modes
@pytest.mark.parametrize("space", [(), (1, 1)], ids=["features", "1x1"])
@pytest.mark.parametrize("examples", [1, 3])
def test_finite_on_the_smallest_inputs(label: str, training: bool, space: tuple[int, ...], examples: int) -> None:
    norm = random_norm(label, dtype=torch.float32).train(training)
    context, target = (x.requires_grad_() for x in random_task(examples, 1, space, dtype=torch.float32))
    output = torch.cat(two_passes(norm, (context, target)))
    output.square().sum().backward()
    tensors = [output, context.grad, target.grad, *(parameter.grad for parameter in norm.parameters())]
    assert all(tensor is None or torch.isfinite(tensor).all() for tensor in tensors)
    assert torch.isfinite(norm.running_var).all()


@norms
@modes
def test_constant_channels_have_finite_gradients(label: str, training: bool) -> None:
    norm = random_norm(label, dtype=torch.float32).train(training)
    x = torch.full((6, CHANNELS, 3, 3), 100.0, requires_grad=True)
    with tasknorm.joint(norm, context_size=3):
        output = norm(x)
    output.square().sum().backward()
    assert x.grad is not None
    assert torch.isfinite(output).all()
    assert torch.isfinite(x.grad).all()


@norms
@pytest.mark.parametrize("affine", [True, False, "offset"])
def test_affine(label: str, affine: bool | str) -> None:
    norm = random_norm(label, affine=affine).eval()
    plain = random_norm(label, affine=False).eval()
    if label.startswith("TaskNorm"):
        plain.alpha_offset, plain.alpha_scale = norm.alpha_offset, norm.alpha_scale  # type: ignore[assignment]
    plain.load_state_dict({key: value for key, value in norm.state_dict().items() if key not in ("weight", "bias")})
    expected = one_pass(plain, random_task())
    if norm.weight is not None:
        expected = expected * norm.weight[:, None, None]
    if norm.bias is not None:
        expected = expected + norm.bias[:, None, None]
    assert (norm.weight is None, norm.bias is None) == (affine is not True, affine is False)
    torch.testing.assert_close(one_pass(norm, random_task()), expected, rtol=0, atol=1e-12)


@norms
def test_without_a_phase(label: str) -> None:
    """Norms that need a context say so, RN in eval only; the others are torch's own layers (see their own tests)."""
    x = random_task()[0]
    for training in (True, False):
        norm = random_norm(label).train(training)
        if NORMS[label].needs_context and not (label == "RN" and training):
            with pytest.raises(tasknorm.PhaseError, match=f"{label} normalises with its task's context.*joint"):
                norm(x)
        else:
            assert norm(x).shape == x.shape


@norms
def test_eval_changes_no_running_moments(label: str) -> None:
    norm = random_norm(label).eval()
    before = copy.deepcopy(norm.state_dict())
    one_pass(norm, random_task())
    two_passes(norm, random_task())
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(norm.state_dict()[name], before[name])


@norms
def test_repr_names_the_options(label: str) -> None:
    assert repr(NORMS[label](8, affine="offset")).startswith(f"{NORMS[label].__name__}(8, eps=1e-05, affine='offset'")


@pytest.mark.parametrize("label", NORMS)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_contexts_of_several_tasks_pass_as_one_by_one(label: str, training: bool) -> None:
    norm = random_norm(label).train(training)
    sets = [random_task(seed=seed)[0] for seed in range(3)]
    expected = []
    for x in sets:
        alone = copy.deepcopy(norm)
        with tasknorm.context(alone):
            expected.append(alone(x))
    with tasknorm.contexts(norm, tasks=3):
        torch.testing.assert_close(norm(torch.cat(sets)), torch.cat(expected))
    assert norm.context_size == 0


@norms
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["contiguous", "last"])
def test_what_follows_may_change_the_output_in_place(label: str, layout: torch.memory_format) -> None:
    """As `ReLU(inplace=True)` and `x += shortcut` do in most networks."""
    norm = random_norm(label).train()
    x = torch.rand(7, CHANNELS, 5, 4, dtype=torch.float64).contiguous(memory_format=layout).requires_grad_()
    found = []
    for relu in (torch.relu, torch.relu_):
        with tasknorm.joint(copy.deepcopy(norm), context_size=4) as model:
            output = relu(model(x))
        found.append((output, gradients(model, output, x)))
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)

"""The norms at home in PyTorch: copies, saves, function transforms, compiler, export, number formats."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.func import functional_call, grad, jacrev, stack_module_state, vmap

import tasknorm
from support.random_norm import CHANNELS, one_pass, random_norm, random_task, two_passes
from tasknorm import NORMS

norms = pytest.mark.parametrize("label", NORMS)
modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
NEEDING = [label for label in NORMS if NORMS[label].needs_context]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def network(label: str, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    first, second = (random_norm(label, seed=seed + i, dtype=torch.float32) for i in range(2))
    return nn.Sequential(nn.Conv2d(3, CHANNELS, 3), first, nn.ReLU(), nn.Conv2d(CHANNELS, CHANNELS, 3), second)


def images(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


class TestCopies:
    @norms
    def test_a_reloaded_adapted_model_predicts_the_same(self, label: str) -> None:
        model = network(label).eval()
        with tasknorm.context(model):
            model(images(5))
        file = io.BytesIO()
        torch.save(model.state_dict(), file)
        file.seek(0)
        reloaded = network(label, seed=1).eval()
        reloaded.load_state_dict(torch.load(file, weights_only=True))
        with tasknorm.target(model), tasknorm.target(reloaded):
            torch.testing.assert_close(reloaded(images(1, 7)), model(images(1, 7)))

    @norms
    @pytest.mark.parametrize(
        "duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"]
    )
    def test_a_copied_adapted_model_predicts_the_same_and_holds_no_graph(self, label: str, duplicate) -> None:
        model = network(label)
        with tasknorm.context(model):
            model(images(5))
            duplicate(model)  # also within a phase
        other = duplicate(model)
        with tasknorm.target(model), tasknorm.target(other):
            torch.testing.assert_close(other(images(2, 7)), model(images(2, 7)))
        assert all(norm._live is None for norm in other.modules() if isinstance(norm, tasknorm.Norm))

    @pytest.mark.parametrize("label", NEEDING)
    def test_loading_replaces_what_an_earlier_context_left(self, label: str) -> None:
        model = network(label).eval()
        saved = copy.deepcopy(two_sets(model, images(5), images(2, 7))[0].state_dict())
        expected = two_sets(model, images(5), images(2, 7))[1]
        two_sets(model, images(9, 3), images(2, 7))
        model.load_state_dict(saved)
        with tasknorm.target(model):
            torch.testing.assert_close(model(images(2, 7)), expected)

    def test_a_change_of_dtype_keeps_the_context(self) -> None:
        model = network("TaskNorm-I").eval()
        expected = two_sets(model, images(5), images(2, 7))[1]
        model.double()
        with tasknorm.target(model):
            torch.testing.assert_close(model(images(2, 7).double()), expected.double(), rtol=1e-4, atol=1e-5)

    @norms
    def test_state_dicts_of_all_norms_agree_but_for_alpha(self, label: str) -> None:
        names = {name for name in NORMS[label](4).state_dict() if not name.startswith("alpha")}
        assert names == set(NORMS["CBN"](4).state_dict())
        assert set(nn.BatchNorm2d(4).state_dict()) <= names


def two_sets(model: nn.Module, context: Tensor, target: Tensor) -> tuple[nn.Module, Tensor]:
    with tasknorm.context(model):
        model(context)
    with tasknorm.target(model):
        return model, model(target)


class TestFunctionTransforms:
    @norms
    @modes
    def test_functional_call(self, label: str, training: bool) -> None:
        model, other = network(label).train(training), network(label, seed=1).train(training)
        state = {name: tensor.detach().clone() for name, tensor in other.state_dict().items()}
        with tasknorm.joint(model, context_size=3), tasknorm.joint(other, context_size=3):
            torch.testing.assert_close(functional_call(model, state, (images(5),)), other(images(5)))

    @norms
    @modes
    def test_grad_and_vmap_over_tasks_with_weights_of_their_own(self, label: str, training: bool) -> None:
        """As in MAML: one gradient per task, running moments handed in and out, equal to one task at a time."""
        models = [network(label, seed=seed).train(training) for seed in range(3)]
        parameters, buffers = stack_module_state(models)
        base = copy.deepcopy(models[0]).train(training)
        x = torch.stack([images(5, seed) for seed in range(3)])

        def loss(parameters, buffers, x):
            buffers = {name: buffer.clone() for name, buffer in buffers.items()}
            output = functional_call(base, (parameters, buffers), (x,))
            return output.square().mean(), buffers

        with tasknorm.joint(base, context_size=3):
            gradients, after = vmap(grad(loss, has_aux=True))(parameters, buffers, x)
        for i, model in enumerate(models):
            with tasknorm.joint(model, context_size=3):
                model(x[i]).square().mean().backward()
            for name, parameter in model.named_parameters():
                expected = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                torch.testing.assert_close(gradients[name][i], expected, rtol=1e-4, atol=1e-5)
            for name, buffer in model.named_buffers():
                torch.testing.assert_close(after[name][i], buffer, rtol=1e-4, atol=1e-5)

    @norms
    def test_jacrev(self, label: str) -> None:
        norm = random_norm(label).eval()
        x = torch.cat(random_task(2, 1, (2,)))

        def function(x: Tensor) -> Tensor:
            with tasknorm.joint(norm, context_size=2):
                return norm(x)

        expected = torch.autograd.functional.jacobian(function, x)
        torch.testing.assert_close(jacrev(function)(x), expected, rtol=0, atol=1e-10)

    @norms
    def test_hessian_vector_products(self, label: str) -> None:
        norm = random_norm(label).eval()
        x = torch.cat(random_task(2, 1, (2,)))

        def function(x: Tensor) -> Tensor:
            with tasknorm.joint(norm, context_size=2):
                return norm(x).sin().sum()

        expected = torch.autograd.functional.hessian(function, x)
        torch.testing.assert_close(jacrev(grad(function))(x), expected, rtol=0, atol=1e-9)

    def test_batched_gradients(self) -> None:
        norm = random_norm("TaskNorm-I")
        x = torch.cat(random_task()).requires_grad_()
        output = one_pass(norm, (x[:4], x[4:]))
        cotangents = torch.randn(3, *output.shape, dtype=torch.float64)
        (batched,) = torch.autograd.grad(output, [x], cotangents, is_grads_batched=True, retain_graph=True)
        for cotangent, expected in zip(cotangents, batched, strict=True):
            torch.testing.assert_close(torch.autograd.grad(output, [x], cotangent, retain_graph=True)[0], expected)


class TestCompiler:
    @norms
    @modes
    def test_full_graph_equals_eager(self, label: str, training: bool) -> None:
        eager = network(label).double().train(training)
        model = copy.deepcopy(eager)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for first, second in ((eager, eager), (model, compiled)):
            with tasknorm.joint(first, context_size=3):
                second(images(6).double()).square().mean().backward()
        for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-8, atol=1e-10)
        for ours, theirs in zip(model.buffers(), eager.buffers(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)

    @pytest.mark.parametrize("label", NEEDING)
    def test_two_compiled_passes_equal_eager(self, label: str) -> None:
        eager = network(label).double()
        model = copy.deepcopy(eager)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        outputs = []
        for first, second in ((eager, eager), (model, compiled)):
            with tasknorm.context(first):
                second(images(4).double())
            with tasknorm.target(first):
                outputs.append(second(images(3, 7).double()))
            outputs[-1].square().mean().backward()
        torch.testing.assert_close(outputs[1], outputs[0])
        for ours, theirs in zip(model.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-8, atol=1e-10)

    @norms
    @pytest.mark.parametrize("joint", [True, False], ids=["joint", "two passes"])
    def test_twenty_context_sizes_need_at_most_four_graphs(self, label: str, joint: bool) -> None:
        model = network(label)
        counter = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, fullgraph=True, backend=counter)
        for size in range(1, 21):
            eager = copy.deepcopy(model)
            if joint:
                with tasknorm.joint(model, context_size=size), tasknorm.joint(eager, context_size=size):
                    torch.testing.assert_close(
                        compiled(images(size + 5)), eager(images(size + 5)), rtol=1e-4, atol=1e-4
                    )
            else:
                with tasknorm.context(model):
                    compiled(images(size))
                with tasknorm.target(model):
                    ours = compiled(images(5, 7))
                torch.testing.assert_close(ours, two_sets(eager, images(size), images(5, 7))[1], rtol=1e-4, atol=1e-4)
        assert counter.frame_count <= 4

    def test_a_compiled_step_may_enter_the_phase_itself(self) -> None:
        model = network("TaskNorm-I").double()

        def step(x: Tensor, size: int) -> Tensor:
            with tasknorm.joint(model, context_size=size):
                return model(x).square().mean()

        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        for size in (2, 3, 4):
            torch.testing.assert_close(compiled(images(6).double(), size), step(images(6).double(), size))

    def test_inductor(self) -> None:
        """The real compiler, once: the rest runs its front end, which is where a norm could break."""
        eager = random_norm("TaskNorm-I", dtype=torch.float32)
        model = copy.deepcopy(eager)
        compiled = torch.compile(model, fullgraph=True)
        results = []
        for norm, function in ((eager, eager), (model, compiled)):
            x = torch.cat(random_task(dtype=torch.float32)).requires_grad_()
            with tasknorm.joint(norm, context_size=4):
                output = function(x)
            output.square().sum().backward()
            results.append([output, x.grad, *(parameter.grad for parameter in norm.parameters())])
        torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)

    @norms
    def test_export_of_an_adapted_model(self, label: str) -> None:
        model = network(label).eval()
        expected = two_sets(model, images(5), images(4, 7))[1]
        batch = torch.export.Dim("batch", min=1, max=1024)
        with tasknorm.target(model), torch.no_grad():
            exported = torch.export.export(model, (images(2),), dynamic_shapes=({0: batch},))
        torch.testing.assert_close(exported.module()(images(4, 7)), expected)


class TestNumberFormats:
    @norms
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_low_precision_inputs_are_normalised_with_float32_moments(self, label: str, dtype: torch.dtype) -> None:
        norm = random_norm(label, dtype=torch.float32)
        x = torch.cat(random_task(4, 3, (8, 8), dtype=torch.float32)).to(dtype).requires_grad_()
        reference = x.detach().float().requires_grad_()
        other = copy.deepcopy(norm)
        with tasknorm.joint(norm, context_size=4), tasknorm.joint(other, context_size=4):
            output, expected = norm(x), other(reference)
        assert output.dtype == dtype
        torch.testing.assert_close(output, expected.to(dtype), rtol=0.02, atol=0.02)
        output.float().sin().sum().backward()
        expected.sin().sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == dtype
        torch.testing.assert_close(x.grad, reference.grad.to(dtype), rtol=0.05, atol=0.05)
        assert norm.running_mean.dtype == torch.float32

    @norms
    @modes
    def test_a_model_in_half_precision(self, label: str, training: bool) -> None:
        norm = random_norm(label, dtype=torch.bfloat16).train(training)
        x = torch.cat(random_task(dtype=torch.float32)).bfloat16().requires_grad_()
        with tasknorm.joint(norm, context_size=4):
            output = norm(x)
        output.sum().backward()
        assert output.dtype == torch.bfloat16
        assert torch.isfinite(output).all()

    @norms
    def test_autocast(self, label: str) -> None:
        model = network(label)
        expected = copy.deepcopy(model)
        with tasknorm.joint(model, context_size=3), tasknorm.joint(expected, context_size=3):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = model(images(6))
            torch.testing.assert_close(output.float(), expected(images(6)), rtol=0.1, atol=0.15)
        output.float().square().mean().backward()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())

    @norms
    def test_channels_last_is_kept(self, label: str) -> None:
        norm = random_norm(label)
        other = copy.deepcopy(norm)
        x = torch.cat(random_task(space=(4, 5))).requires_grad_()
        last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
        with tasknorm.joint(norm, context_size=4), tasknorm.joint(other, context_size=4):
            output, expected = norm(last), other(x)
        assert output.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(output, expected, rtol=0, atol=1e-11)
        (output.sin().sum() + expected.sin().sum()).backward()
        torch.testing.assert_close(last.grad, x.grad, rtol=0, atol=1e-11)

    @norms
    def test_strided_inputs(self, label: str) -> None:
        norm = random_norm(label).eval()
        x = torch.cat(random_task(space=(4, 6)))[..., ::2]
        with tasknorm.joint(norm, context_size=4):
            torch.testing.assert_close(norm(x), norm(x.contiguous()), rtol=0, atol=1e-12)


class TestModes:
    @norms
    def test_deterministic_algorithms(self, label: str) -> None:
        torch.use_deterministic_algorithms(True)
        try:
            results = []
            for _ in range(2):
                norm = random_norm(label, dtype=torch.float32)
                x = torch.cat(random_task(dtype=torch.float32)).requires_grad_()
                with tasknorm.joint(norm, context_size=4):
                    output = norm(x)
                output.sin().sum().backward()
                results.append((output, x.grad))
            assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
        finally:
            torch.use_deterministic_algorithms(False)

    @norms
    def test_inference_mode_after_training(self, label: str) -> None:
        norm = random_norm(label).eval()
        expected = two_passes(norm, random_task())
        with torch.inference_mode():
            output = two_passes(norm, random_task())
        torch.testing.assert_close(output, expected)
        with tasknorm.target(norm):  # what inference left behind serves outside of it
            norm(random_task()[1])

    @norms
    def test_frozen_parameters_get_no_gradient(self, label: str) -> None:
        norm = random_norm(label).requires_grad_(False)
        x = torch.cat(random_task()).requires_grad_()
        one_pass(norm, (x[:4], x[4:])).sin().sum().backward()
        assert x.grad is not None
        assert all(parameter.grad is None for parameter in norm.parameters())
        assert not one_pass(norm, random_task()).requires_grad

    @norms
    def test_backward_twice_through_one_graph(self, label: str) -> None:
        norm = random_norm(label).eval()
        x = torch.cat(random_task()).requires_grad_()
        loss = one_pass(norm, (x[:4], x[4:])).sin().sum()
        first = torch.autograd.grad(loss, x, retain_graph=True)
        torch.testing.assert_close(torch.autograd.grad(loss, x), first, rtol=0, atol=0)

"""What a norm refuses to do, for every entry of NORMS: either the right numbers or an error that names the remedy."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import tasknorm
from support.random_norm import CHANNELS, random_norm, random_task
from tasknorm import NORMS, Norm, PhaseError
from tasknorm.training import as_first_computed

norms = pytest.mark.parametrize("label", NORMS)
modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
needing = pytest.mark.parametrize("label", [label for label in NORMS if NORMS[label].needs_context])


def network(label: str) -> nn.Sequential:
    torch.manual_seed(0)
    convolution = nn.Conv2d(CHANNELS, CHANNELS, 1, dtype=torch.float64)
    return nn.Sequential(convolution, nn.Sequential(random_norm(label)), nn.Tanh(), random_norm(label, seed=1))


class TestSecondCall:
    """A second call in one context phase: the moments of one of the two would be lost."""

    @norms
    def test_a_context_in_two_parts_is_refused_by_norms_that_keep_it(self, label: str) -> None:
        model = network(label)
        context = random_task()[0]
        before = copy.deepcopy(model.state_dict())
        if not NORMS[label].needs_context:
            with tasknorm.context(model):
                model(context[:2])
                model(context[2:])
            return
        with pytest.raises(PhaseError, match=rf"{label} \('1\.0'\) was called twice in one context phase.*one forward"):
            with tasknorm.context(model):
                model(context[:2])
                after_one = copy.deepcopy(model.state_dict())
                model(context[2:])
        for name, value in model.state_dict().items():
            expected = before if "context" in name else after_one
            assert torch.equal(value, expected[name])

    @norms
    @modes
    def test_a_module_in_two_places_is_exact_or_refused(self, label: str, training: bool) -> None:
        """Never silently different from `joint`, where it is exact."""
        norm = random_norm(label).train(training)
        if label == "BRN" and training:
            pytest.skip("its outputs depend on the order in which sets move its running moments")
        model = nn.Sequential(norm, nn.Tanh(), norm)
        context, target = random_task()
        with tasknorm.joint(copy.deepcopy(model), context_size=len(context)) as other:
            expected = other(torch.cat((context, target)))
        try:
            with tasknorm.context(model):
                first = model(context)
            with tasknorm.target(model):
                output = torch.cat((first, model(target)))
        except PhaseError as error:
            assert NORMS[label].needs_context
            assert "in two places, use tasknorm.joint" in str(error)  # noqa: PT017
        else:
            torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)

    def test_a_compiled_model_refuses_it_too(self) -> None:
        torch._dynamo.reset()
        model, context = network("TaskNorm-I"), random_task()[0]
        compiled = torch.compile(model, backend="aot_eager")
        with pytest.raises(PhaseError, match="was called twice in one context phase"), tasknorm.context(model):
            compiled(context)
            compiled(context)
        torch._dynamo.reset()

    @needing
    def test_the_next_context_is_a_new_one(self, label: str) -> None:
        norm, (context, target) = random_norm(label).eval(), random_task()
        for x in (context, target):
            with tasknorm.context(norm):
                norm(x)
            assert norm.context_size == len(x)

    @norms
    def test_contexts_and_joint_store_nothing_and_may_be_called_again(self, label: str) -> None:
        norm, x = random_norm(label).eval(), random_task()[0]
        for phase in (tasknorm.contexts(norm, tasks=1), tasknorm.joint(norm, context_size=2)):
            with phase:
                torch.testing.assert_close(norm(x), norm(x), rtol=0, atol=0)


class TestTorchsCheckpoint:
    """It calls a norm again in the backward pass, where the phase may have ended and running moments have moved."""

    @norms
    @modes
    @pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
    @pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not"])
    def test_gradients_are_right_or_the_error_names_recompute(
        self, label: str, training: bool, inside: bool, reentrant: bool
    ) -> None:
        plain = random_norm(label).train(training)
        norm = copy.deepcopy(plain)
        first, second = (torch.cat(random_task()).requires_grad_() for _ in range(2))
        with tasknorm.joint(plain, context_size=4):
            plain(first).sin().sum().backward()
        try:
            with tasknorm.joint(norm, context_size=4):
                loss = checkpoint(norm, second, use_reentrant=reentrant).sin().sum()
                if inside:
                    loss.backward()
            if not inside:
                loss.backward()
        except PhaseError as error:
            assert norm.looks_beyond_the_example
            assert "tasknorm.training.recompute(net)" in str(error)  # noqa: PT017
            assert "as_first_computed" in str(error)  # noqa: PT017
        else:
            torch.testing.assert_close(second.grad, first.grad)
        torch.testing.assert_close(dict(norm.named_buffers()), dict(plain.named_buffers()))

    @norms
    @modes
    def test_the_remedy(self, label: str, training: bool) -> None:
        plain = random_norm(label).train(training)
        norm = copy.deepcopy(plain)
        first, second = ([x.requires_grad_() for x in random_task()] for _ in range(2))
        again = partial(checkpoint, norm, use_reentrant=False, context_fn=partial(as_first_computed, norm))
        for model, call, (context, target) in ((plain, plain, first), (norm, again, second)):
            with tasknorm.context(model):
                one = call(context)
            with tasknorm.target(model):
                (one.sin().sum() + call(target).sin().sum()).backward()
        torch.testing.assert_close([x.grad for x in second], [x.grad for x in first])
        torch.testing.assert_close(dict(norm.named_buffers()), dict(plain.named_buffers()))
        assert norm.phase is None
        assert not norm.restored


class TestTracers:
    @norms
    def test_torchscript(self, label: str) -> None:
        model = network(label).eval()
        with pytest.raises(NotImplementedError, match=f"jit.script cannot compile {label}.*torch.export.*Predictor"):
            torch.jit.script(model)
        with tasknorm.context(model):
            model(random_task()[0])
        with tasknorm.target(model):
            with pytest.raises(NotImplementedError, match=f"jit.trace cannot record {label}.*torch.export.*Predictor"):
                torch.jit.trace(model, random_task()[1])

    @norms
    def test_fx(self, label: str) -> None:
        with pytest.raises(NotImplementedError, match=f"symbolic_trace cannot look into {label}.*is_leaf_module.*"):
            torch.fx.symbolic_trace(network(label))

    @norms
    def test_fx_with_norms_as_leaves(self, label: str) -> None:
        class Tracer(torch.fx.Tracer):
            def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
                return isinstance(m, tasknorm.Norm) or super().is_leaf_module(m, module_qualified_name)

        model = network(label).eval()
        traced = torch.fx.GraphModule(model, Tracer().trace(model))
        context, target = random_task()
        outputs = []
        for one in (model, traced):
            with tasknorm.context(one):
                one(context)
            with tasknorm.target(one):
                outputs.append(one(target))
        torch.testing.assert_close(outputs[1], outputs[0])


class TestTransforms:
    @norms
    @pytest.mark.parametrize("transform", ["vmap", "grad"])
    def test_a_context_is_not_kept_under_transforms(self, label: str, transform: str) -> None:
        model = network(label).eval()
        context, target = random_task()

        def two(context: Tensor) -> Tensor:
            with tasknorm.context(model):
                one = model(context)
            with tasknorm.target(model):
                return one.sum() + model(target).sum()

        transformed = torch.vmap(two) if transform == "vmap" else torch.func.grad(two)
        x = context.expand(3, *context.shape) if transform == "vmap" else context
        if NORMS[label].needs_context:
            with pytest.raises(PhaseError, match=rf"{label} cannot keep a context under vmap.*tasknorm\.joint"):
                transformed(x)
        else:
            transformed(x)
        assert all(module.phase is None for module in model.modules() if isinstance(module, tasknorm.Norm))

    @norms
    @pytest.mark.parametrize("transform", ["vmap", "grad"])
    def test_running_moments_do_not_move_under_transforms(self, label: str, transform: str) -> None:
        norm = random_norm(label).train()
        x = torch.cat(random_task())
        before = copy.deepcopy(norm.state_dict())

        def once(x: Tensor) -> Tensor:
            with tasknorm.joint(norm, context_size=4):
                return norm(x).sum()

        transformed = torch.vmap(once) if transform == "vmap" else torch.func.grad(once)
        x = x.expand(3, *x.shape) if transform == "vmap" else x
        if NORMS[label].tracks:
            with pytest.raises(RuntimeError, match=f"{label} cannot move its running moments.*functional_call"):
                transformed(x)
        else:
            transformed(x)
        assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())


class TestStaleMoments:
    """Weights that change between context and target leave moments behind that are not theirs."""

    @staticmethod
    def adapted(label: str) -> tuple[nn.Module, Tensor]:
        model = network(label)
        context, target = random_task()
        with tasknorm.context(model):
            model(context).sin().sum().backward()
        return model, target

    @norms
    def test_a_step_between_context_and_target(self, label: str) -> None:
        model, target = self.adapted(label)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        if NORMS[label].needs_context:
            with pytest.raises(PhaseError, match=f"the weights have changed since {label} saw .*pass the context"):
                with tasknorm.target(model):
                    pass
            with tasknorm.context(model):
                model(random_task()[0])
        with tasknorm.target(model):
            model(target)

    @needing
    def test_a_step_inside_the_block_after_the_pass(self, label: str) -> None:
        model = network(label)
        with tasknorm.context(model):
            model(random_task()[0]).sin().sum().backward()
            torch.optim.SGD(model.parameters(), lr=0.1).step()
        with pytest.raises(PhaseError, match="the weights have changed"), tasknorm.target(model):
            pass

    @needing
    def test_no_false_alarm(self, label: str) -> None:
        """What comes after the norms may change, as may what is loaded, copied or cast together with its context."""
        body, target = self.adapted(label)
        model = nn.Sequential(body, nn.Flatten(), nn.LazyLinear(2, dtype=torch.float64))
        with tasknorm.context(model):
            model(random_task()[0]).sum().backward()
        torch.optim.SGD(model[2].parameters(), lr=0.1).step()  # a classifier on top
        with tasknorm.target(model):
            expected = model(target)
        saved = copy.deepcopy(model.state_dict())
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        model.load_state_dict(saved)
        for same in (model, copy.deepcopy(model), copy.deepcopy(model).float().double()):
            with tasknorm.target(same):
                torch.testing.assert_close(same(target), expected, rtol=1e-5, atol=1e-5)

    @needing
    def test_loading_inside_the_block_before_the_pass(self, label: str) -> None:
        model = network(label)
        with tasknorm.context(model):
            model.load_state_dict(network(label).state_dict())
            model(random_task()[0])
        with tasknorm.target(model):
            model(random_task()[1])


class TestClassesOfYourOwn:
    """A class that does not say what the tools must know of it is refused when it is made, not in a forward pass."""

    def test_what_is_missing_is_named(self) -> None:
        class Silent(Norm):
            label = "Silent"
            transductive = False

        with pytest.raises(TypeError, match=r"the class Silent does not say its needs_context; set label"):
            Silent(CHANNELS)

    def test_a_class_that_says_all_is_made(self) -> None:
        class Whole(Norm):
            label, transductive, needs_context = "Whole", False, False

        assert Whole(CHANNELS).label == "Whole"

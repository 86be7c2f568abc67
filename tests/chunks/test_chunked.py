"""A net in chunks computes what the plain net computes: every norm and learner, every phase, gradients included."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

import tasknorm
from support.exact_learners import SHAPE, learner_of, with_running
from tasknorm import NORMS, Episode, chunked, context, contexts, convert, joint, nets, target
from tasknorm.chunks import InParts, column, fitted, unchunked, whole
from tasknorm.learners import Learner
from tasknorm.nets.film import with_film
from tasknorm.training import recompute

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def tasks(count: int = 2, dtype: torch.dtype = torch.float64) -> list[Episode]:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, 11, *SHAPE, generator=generator, dtype=dtype)
    context_y, target_y = torch.arange(7) % 2, torch.arange(4) % 2
    return [Episode(each[:7], context_y, each[7:], target_y) for each in x]


def same(plain: nn.Module, other: nn.Module) -> None:
    for (name, one), (_, two) in zip(plain.named_parameters(), other.named_parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), name
        if one.grad is not None:
            torch.testing.assert_close(one.grad, two.grad, **EXACT, msg=name)
    for (name, one), (_, two) in zip(plain.named_buffers(), other.named_buffers(), strict=True):
        torch.testing.assert_close(one, two, **EXACT, msg=name)


def small_net(norm: str, **options: object) -> nn.Module:
    torch.manual_seed(0)
    return with_running(nets.ResNet(NORMS[norm], widths=(3, 4), depth=1, image_shape=SHAPE, **options))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("learner", ["protonets", "cnaps", "maml", "second-order", "ncm"])
def test_every_learner_learns_the_same(learner: str, norm: str) -> None:
    plain = learner_of(learner, norm)
    other = copy.deepcopy(plain).in_chunks(5, lean=learner == "protonets")
    for model in (plain, other):
        for _ in range(2):  # the second pass meets running moments that the first has moved
            losses = model.learn(tasks()).losses
            if model.meta_trained:
                losses.sum().backward()
    torch.testing.assert_close(plain.learn(tasks()).losses, other.learn(tasks()).losses, **EXACT)
    same(plain, other)


@pytest.mark.parametrize("norm", NORMS)
def test_context_then_targets(norm: str) -> None:
    plain = small_net(norm)
    x = torch.rand(13, *SHAPE, dtype=torch.float64, requires_grad=True)
    gradients = []
    for model in (plain, chunked(copy.deepcopy(plain), 3)):
        with context(model):
            means = model(x[:8])
        with target(model):
            features = model(x[8:])
        assert all(module.phase is None for module in model.modules() if isinstance(module, tasknorm.Norm))
        gradients.append(torch.autograd.grad((features.square().sum() - means.sum()), [x, *model.parameters()]))
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, **EXACT)


@pytest.mark.parametrize("norm", ["TBN", "TaskNorm-I", "CBN"])
@pytest.mark.parametrize("size", [1, 7, 10, 100])
def test_any_size_of_chunks(norm: str, size: int) -> None:
    plain = small_net(norm)
    x = torch.rand(2 * 11, *SHAPE, dtype=torch.float64)
    other = chunked(copy.deepcopy(plain), size, lean=size == 7)
    for model in (plain, other):
        with joint(model, context_size=7, tasks=2):
            model(x).square().sum().backward()
    same(plain, other)


def test_a_batch_of_one_chunk_is_the_plain_pass_to_the_bit() -> None:
    plain = small_net("TaskNorm-I").float()
    x = torch.rand(11, *SHAPE)
    with joint(plain, context_size=7):
        expected = plain(x)
    with joint(chunked(plain, 11), context_size=7):
        assert torch.equal(plain(x), expected)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("in_memory", [0, 1 << 26], ids=["file", "memory"])
def test_without_gradients(norm: str, in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "IN_MEMORY", in_memory)
    plain = small_net(norm).eval()
    other = chunked(copy.deepcopy(plain), 3)
    x = torch.rand(11, *SHAPE, dtype=torch.float64)
    with torch.no_grad():
        for model in (plain, other):
            with context(model):
                model(x[:7])
        with target(plain), target(other):
            torch.testing.assert_close(other(x[7:]), plain(x[7:]), **EXACT)
        with joint(plain, 7), joint(other, 7):
            torch.testing.assert_close(other(x), plain(x), **EXACT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_file_gives_back_what_it_got(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column, "IN_MEMORY", 0)
    values = [
        torch.rand(2, 3, 4, 5).to(dtype),
        torch.rand(2, 3, 4, 5).to(dtype).contiguous(memory_format=torch.channels_last),
        torch.rand(4, 3, 4, 10).to(dtype)[1:3, :, :, ::2],
        torch.rand(3, 4, dtype=torch.float64),
        7,
    ]
    kept = column.Column()
    for value in values:
        kept.add(value)
    for chunk in (3, 1, 0, 2, 1):
        assert torch.equal(kept[chunk], values[chunk])
    assert kept[1].stride() == values[1].stride()
    assert kept[4] == 7


@pytest.mark.parametrize("norm", ["TaskNorm-I", "BRN"])
def test_it_composes_with_recomputation(norm: str) -> None:
    plain = small_net(norm)
    other = chunked(recompute(copy.deepcopy(plain)), 4)
    x = torch.rand(11, *SHAPE, dtype=torch.float64)
    for model in (plain, other):
        with joint(model, context_size=7):
            features = model(x)
        features.square().sum().backward()
    same(plain, other)


def test_bfloat16() -> None:
    plain = small_net("TaskNorm-I").float()
    other = chunked(copy.deepcopy(plain), 4)
    x = torch.rand(11, *SHAPE)
    for model in (plain, other):
        with joint(model, context_size=7), torch.autocast("cpu", torch.bfloat16):
            features = model(x)
        features.float().square().sum().backward()
    for (name, one), (_, two) in zip(plain.named_parameters(), other.named_parameters(), strict=True):
        assert (one.grad - two.grad).norm() <= 0.1 * one.grad.norm() + 1e-3, name


@pytest.mark.parametrize("norm", ["TaskNorm-I", "CBN"])
def test_weights_of_functional_call_are_those_of_the_backward_pass(norm: str) -> None:
    net = small_net(norm)
    weights = {name: (1.1 * p).detach().requires_grad_() for name, p in net.named_parameters()}
    x = torch.rand(11, *SHAPE, dtype=torch.float64)
    found = []
    for model in (net, chunked(copy.deepcopy(net), 4)):
        with joint(model, context_size=7):
            features = functional_call(model, weights, (x,))
        found.append(torch.autograd.grad(features.square().sum(), list(weights.values())))
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, **EXACT)


def test_conversion_film_and_copies_after_chunking() -> None:
    plain = small_net("CBN").eval()
    other = chunked(copy.deepcopy(plain), 3)
    x = torch.rand(7, *SHAPE, dtype=torch.float64)
    for change in (lambda net: convert(net, "TBN"), lambda net: with_film(net).double(), copy.deepcopy):
        plain, other = change(plain), change(other)
        with contexts(plain, 1), contexts(other, 1):
            torch.testing.assert_close(other(x), plain(x), **EXACT)
    assert list(plain.state_dict()) == list(other.state_dict())
    assert "forward" not in vars(unchunked(other))


class Odd(nn.Module):
    """Norms in a row, on vectors, on one input twice, used twice; a shortcut from the images; a constant."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        make = NORMS[norm]
        self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.first, self.second, self.third, self.last = make(3), make(3), make(3), make(5)
        self.linear = nn.Linear(3, 5)
        self.gain = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        z = self.second(self.first(y)) + self.third(y) + y + self.gain * x
        z = torch.relu(self.first(z)) * x.shape[1]
        return self.last(self.linear(z.mean((2, 3)))) + self.gain


@pytest.mark.parametrize("norm", NORMS)
def test_odd_nets(norm: str) -> None:
    torch.manual_seed(0)
    plain = with_running(Odd(norm))
    other = chunked(copy.deepcopy(plain), 4)
    x = torch.rand(2 * 9, 1, 5, 5, dtype=torch.float64)
    for model in (plain, other):
        with joint(model, context_size=5, tasks=2):
            model(x).square().sum().backward()
    same(plain, other)


class Changing(nn.Module):
    """Values that are changed in place, each in another way, and a net that keeps their input for a shortcut."""

    def __init__(self, norm: str) -> None:
        super().__init__()
        make = NORMS[norm]
        self.convs = nn.ModuleList(nn.Conv2d(2, 2, 3, padding=1) for _ in range(3))
        self.stem = nn.Conv2d(1, 2, 3, padding=1)
        self.norms = nn.ModuleList(make(2) for _ in range(4))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norms[0](self.stem(x)))
        y = self.norms[1](self.convs[0](x))
        y += x
        z = self.norms[2](self.convs[1](y.relu_()))
        z = nn.functional.relu(z, inplace=True)
        return self.norms[3](self.convs[2](z)).mul_(2).mean((2, 3))


@pytest.mark.parametrize("grad", [True, False])
def test_values_that_are_changed_in_place(grad: bool) -> None:
    torch.manual_seed(0)
    plain = with_running(Changing("TaskNorm-I"))
    other = chunked(copy.deepcopy(plain), 2, lean=True)
    x = torch.rand(7, 1, 6, 6, dtype=torch.float64)
    with torch.set_grad_enabled(grad), joint(plain, 4), joint(other, 4):
        one, two = plain(x), other(x)
    torch.testing.assert_close(one, two, **EXACT)
    if grad:
        one.square().sum().backward()
        two.square().sum().backward()
        same(plain, other)


def test_it_can_be_pickled() -> None:
    net = chunked(small_net("TaskNorm-I"), 3)
    again = pickle.loads(pickle.dumps(net))
    x = torch.rand(7, *SHAPE, dtype=torch.float64)
    with contexts(net, 1), contexts(again, 1):
        assert torch.equal(net(x), again(x))
    assert again.forward.examples == 3


def test_threads_may_use_copies_at_once() -> None:
    net = chunked(small_net("TaskNorm-I").eval(), 3)
    x = torch.rand(7, *SHAPE, dtype=torch.float64)

    def features(each: nn.Module) -> Tensor:
        with contexts(each, 1):
            return each(x)

    expected = features(net)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(features, [copy.deepcopy(net) for _ in range(8)]):
            assert torch.equal(found, expected)


class Held(TorchDispatchMode):
    """Counts the bytes of tensors that are there, and the most at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, Tensor) and tensor.untyped_storage()._cdata not in self.known:
                storage = tensor.untyped_storage()
                self.known.add(storage._cdata)
                self.now += storage.nbytes()
                weakref.finalize(storage, self.drop, storage._cdata, storage.nbytes())
        self.most = max(self.most, self.now)
        return result

    def drop(self, key: int, size: int) -> None:
        self.known.discard(key)
        self.now -= size


@pytest.mark.parametrize(
    ("learner", "lean", "share"),
    [("protonets", False, 0.8), ("protonets", True, 0.55), ("cnaps", False, 0.3), ("maml", False, 0.8)],
)
def test_memory_grows_less_with_the_context(learner: str, lean: bool, share: float) -> None:
    """What a further context image adds to the most that a step holds."""

    def most(model: Learner, context_size: int) -> int:
        x = torch.rand(context_size + 4, *SHAPE, dtype=torch.float64)
        y = torch.arange(len(x)) % 2
        with Held() as held:
            task = Episode(x[4:], y[4:], x[:4], y[:4])
            model.learn([task]).losses.sum().backward()
        return held.most

    def slope(model: Learner) -> float:
        return (most(model, 32) - most(model, 16)) / 16

    plain = learner_of(learner, "TaskNorm-I")
    assert slope(copy.deepcopy(plain).in_chunks(4, lean=lean)) < share * slope(plain)


def test_a_pass_without_a_backward_pass_is_forgotten() -> None:
    net = chunked(small_net("TaskNorm-I"), 4)
    with joint(net, context_size=7):
        features = net(torch.rand(11, *SHAPE, dtype=torch.float64))
    node = weakref.ref(features)
    tensors = [each for each in gc.get_objects() if issubclass(type(each), Tensor)]
    block = next(each for each in tensors if each.shape == (4, 3, 7, 7))
    storage = weakref.ref(block.untyped_storage())
    del features, block, tensors
    gc.collect()
    assert node() is None
    assert storage() is None


def test_two_backward_passes() -> None:
    net = chunked(small_net("TaskNorm-I"), 4)
    with joint(net, context_size=7):
        loss = net(torch.rand(11, *SHAPE, dtype=torch.float64)).square().sum()
    once = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    for one, two in zip(once, torch.autograd.grad(loss, list(net.parameters())), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0)


def itself(x: Tensor) -> None:
    x.relu_()


def an_operator(x: Tensor) -> None:
    x |= x


def some_channels(x: Tensor) -> None:
    x[:, :1].mul_(2)


def a_view_of_a_view(x: Tensor) -> None:
    nn.functional.relu(x.flatten(1).unsqueeze(0), inplace=True)


def half_of_it(x: Tensor) -> None:
    x.chunk(2, 1)[0].zero_()


def as_an_output(x: Tensor) -> None:
    torch.add(x, 1, out=x)


Change = Callable[[Tensor], object]
CHANGES: list[Change] = [itself, an_operator, some_channels, a_view_of_a_view, half_of_it, as_an_output]


class TestRefusals:
    def test_sizes(self) -> None:
        for size in (0, -1, True, 2.0):
            with pytest.raises(ValueError, match="positive number of examples, got"):
                chunked(small_net("TBN"), size)

    def test_a_net_without_norms(self) -> None:
        with pytest.raises(ValueError, match="has no norms of tasknorm inside"):
            chunked(nn.Sequential(nn.Linear(1, 1)), 2)

    def test_a_batch_norm_that_was_not_converted(self) -> None:
        net = nn.Sequential(nn.BatchNorm2d(1), NORMS["TBN"](1))
        with pytest.raises(ValueError, match=r"BatchNorm2d \('0'\), which sees a chunk as its batch; convert it first"):
            chunked(net, 2)

    def test_a_forward_that_cannot_be_traced(self) -> None:
        class Branching(nn.Sequential):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) if x.sum() > 0 else x

        net = Branching(nn.Conv2d(1, 1, 1), NORMS["TBN"](1))
        with pytest.raises(ValueError, match=r"whose forward torch.fx can trace, got Branching"):
            chunked(net, 2)
        images = InParts(torch.ones(3, 1, 2, 2), lambda some: some, 2)
        assert torch.equal(whole(fitted(net, images)), images.images)

    @pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
    def test_a_value_that_is_changed_in_place_and_used_by_its_old_name(
        self, change: Callable[[Tensor], object]
    ) -> None:
        class Old(nn.Sequential):
            def forward(self, x: Tensor) -> Tensor:
                x = super().forward(x)
                change(x)
                return x

        with pytest.raises(ValueError, match=r"Old changes a value in place and then uses it as it was before"):
            chunked(Old(nn.Conv2d(1, 1, 1), NORMS["TBN"](1)), 2)

    def test_a_compiled_net(self) -> None:
        net = small_net("TBN")
        net.compile()
        with pytest.raises(ValueError, match="a compiled net cannot pass in chunks"):
            chunked(net, 2)

    def test_a_batch_that_is_no_whole_number_of_tasks(self) -> None:
        net = chunked(small_net("TBN"), 2)
        with joint(net, context_size=2, tasks=2), pytest.raises(ValueError, match="does not divide by tasks=2"):
            net(torch.rand(7, *SHAPE, dtype=torch.float64))

    def test_a_second_context(self) -> None:
        net = chunked(small_net("TaskNorm-I"), 2)
        x = torch.rand(5, *SHAPE, dtype=torch.float64)
        with pytest.raises(tasknorm.PhaseError, match="called twice in one context phase"), context(net):
            net(x)
            net(x)

"""Swapping norms keeps what was trained."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
from torch import Tensor, nn

import tasknorm
from tasknorm import NORMS, convert
from tasknorm.norms import TaskNorm

norms = pytest.mark.parametrize("label", NORMS)


class Block(nn.Module):
    """A residual block with a norm on its shortcut."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return (self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + self.shortcut(x)).relu()


def resnet() -> nn.Sequential:
    """A small residual network whose norms have been trained a little."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        Block(8, 8),
        Block(8, 16),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias)
    for _ in range(3):
        net(images(16))
    return net


def images(count: int) -> Tensor:
    return torch.randn(count, 3, 12, 12)


def found(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if isinstance(module, (nn.BatchNorm2d, tasknorm.Norm))]


@norms
def test_every_norm_is_replaced_with_all_it_holds(label: str) -> None:
    net = resnet()
    new = convert(net, label, start="paper")
    assert len(found(new)) == len(found(net)) == 7
    for ours, theirs in zip(found(new), found(net), strict=True):
        assert type(ours) is NORMS[label]
        for name, value in theirs.state_dict().items():
            assert torch.equal(ours.state_dict()[name], value)


def test_converted_to_cbn_a_network_computes_the_same() -> None:
    net = resnet()
    new = convert(net, "CBN")
    x = images(4)
    for training in (True, False):
        torch.testing.assert_close(new.train(training)(x), net.train(training)(x), rtol=1e-4, atol=1e-4)


@norms
def test_running_moments_survive_every_norm(label: str) -> None:
    net = resnet().eval()
    back = convert(convert(convert(net, "CBN"), label), "CBN")
    x = images(4)
    torch.testing.assert_close(back(x), net(x), rtol=1e-4, atol=1e-4)


def test_a_copy_leaves_the_model_alone_and_in_place_changes_it() -> None:
    net = resnet()
    before = copy.deepcopy(net)
    assert convert(net, "TaskNorm-I", start="paper") is not net
    assert [type(module) for module in net.modules()] == [type(module) for module in before.modules()]
    weights = [module.weight for module in found(net)]
    assert convert(net, "TaskNorm-I", start="paper", inplace=True) is net
    assert all(type(module) is NORMS["TaskNorm-I"] for module in found(net))
    assert all(module.weight is weight for module, weight in zip(found(net), weights, strict=True))


def test_a_shared_norm_stays_shared() -> None:
    norm = nn.BatchNorm2d(4)
    net = nn.ModuleDict({"a": nn.Sequential(norm, nn.ReLU()), "b": norm})
    lines: list[str] = []
    new = convert(net, "MetaBN", report=lines.append)
    assert new["a"][0] is new["b"]
    assert lines == ["a.0: BatchNorm2d(4) -> MetaBN(4)", "b: BatchNorm2d(4) -> MetaBN(4)"]


def test_frozen_norms_stay_frozen_and_modes_are_kept() -> None:
    net = resnet()
    net[3].requires_grad_(False).eval()
    net.double()
    new = convert(net, "TaskNorm-I", start="paper")
    for ours, theirs in zip(found(new), found(net), strict=True):
        assert ours.weight.requires_grad is theirs.weight.requires_grad
        assert ours.training is theirs.training
        assert ours.weight.dtype == ours.context_mean.dtype == ours.alpha_offset.dtype == torch.float64
    assert [module.training for module in found(new)] == [True, False, False, False, True, True, True]


@pytest.mark.parametrize("where", ["3.*", lambda name: name.startswith("3.")])
def test_where_selects_by_name(where) -> None:
    new = convert(resnet(), "IN", start="paper", where=where)
    assert [name for name, m in new.named_modules() if isinstance(m, tasknorm.Norm)] == [
        "3.bn1",
        "3.bn2",
        "3.shortcut.1",
    ]


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4, eps=1e-3, momentum=0.3),
        nn.BatchNorm2d(4, affine=False),
        nn.BatchNorm3d(4, momentum=None),
        nn.SyncBatchNorm(4),
        nn.BatchNorm2d(4, track_running_stats=False),
    ],
)
def test_settings_of_every_batch_norm_are_kept(layer: nn.Module) -> None:
    new = convert(layer, "CBN")
    assert type(new) is NORMS["CBN"]
    assert (new.eps, new.momentum, new.affine) == (layer.eps, layer.momentum, layer.affine)
    through = convert(convert(layer, "TBN"), "CBN")
    assert through.momentum == layer.momentum


def test_options_reach_the_norm_and_win() -> None:
    new = convert(nn.BatchNorm2d(4), "TaskNorm-I", alpha="independent-channel", eps=1e-3, affine="offset")
    assert (new.alpha_form, new.eps, new.weight) == ("independent-channel", 1e-3, None)
    assert convert(nn.BatchNorm2d(4, momentum=0.3), "CBN", momentum=0.5).momentum == 0.5


def test_a_class_or_any_callable_will_do() -> None:
    assert type(convert(nn.BatchNorm2d(4), NORMS["IN"])) is NORMS["IN"]
    assert convert(nn.BatchNorm2d(6), functools.partial(NORMS["GN"], num_groups=3)).num_groups == 3


def test_alpha_survives_between_task_norms_of_one_form() -> None:
    norm = NORMS["TaskNorm-I"](4)
    nn.init.constant_(norm.alpha_offset, 0.7)
    assert convert(norm, "TaskNorm-L").alpha_offset == 0.7
    assert convert(norm, "TaskNorm-L", alpha="independent-shared").alpha_offset == 0


def test_a_converted_norm_has_no_context() -> None:
    norm = NORMS["MetaBN"](3)
    with tasknorm.context(norm):
        norm(images(2))
    with pytest.raises(tasknorm.PhaseError, match="before any context"):
        with tasknorm.target(new := convert(norm, "TaskNorm-I")):
            new(images(2))


def test_nothing_to_convert_is_a_warning_that_says_what_was_looked_for() -> None:
    with pytest.warns(UserWarning, match=r"nothing to convert in Linear: looked for BatchNorm1d, .*norms of tasknorm"):
        convert(nn.Linear(2, 2), "IN")
    with pytest.warns(UserWarning, match=r"among the modules that where='layer9.\*' selects"):
        convert(resnet(), "IN", where="layer9.*")


def test_an_unknown_name_lists_the_choices() -> None:
    with pytest.raises(ValueError, match=r"norm must be one of CBN, TBN, .*Baseline.*; got 'tasknorm-i'"):
        convert(resnet(), "tasknorm-i")


def test_a_lazy_norm_must_know_its_channels() -> None:
    with pytest.raises(ValueError, match="does not know its channels yet; run the model once"):
        convert(nn.Sequential(nn.LazyBatchNorm2d()), "IN")


def test_torchvisions_resnet() -> None:
    models = pytest.importorskip("torchvision.models", reason="torchvision is not installed")
    net = models.resnet18(weights=None).eval()
    x = torch.randn(2, 3, 64, 64)
    torch.testing.assert_close(convert(net, "CBN")(x), net(x), rtol=1e-4, atol=1e-4)
    new = convert(net, "TaskNorm-I", start="paper")
    with tasknorm.joint(new, context_size=1):
        assert new(x).shape == (2, 1000)


@pytest.mark.parametrize(
    ("model", "got"),
    [
        ({"weight": torch.zeros(2)}, "dict"),
        (nn.Sequential, "the class Sequential"),
        ("resnet18", "str"),
        (None, "None"),
    ],
)
def test_what_is_no_module_is_refused(model: object, got: str) -> None:
    with pytest.raises(TypeError, match=f"convert takes a torch module, got {got}.*; pass the model itself"):
        tasknorm.convert(model, "TaskNorm-I")  # type: ignore[type-var]


@pytest.mark.parametrize(("norm", "got"), [(None, "NoneType"), (7, "int"), (tasknorm.NORMS["TBN"](8), "TBN")])
def test_what_makes_no_norm_is_refused(norm: object, got: str) -> None:
    with pytest.raises(TypeError, match=f"norm must be one of .* that makes a norm, got {got}; each layer"):
        tasknorm.convert(nn.BatchNorm2d(8), norm)  # type: ignore[arg-type]


@pytest.mark.parametrize("label", NORMS)
@pytest.mark.parametrize("options", [{}, {"track_running_stats": False}, {"affine": False}], ids=str)
def test_a_state_dict_of_the_plain_model_loads_strictly_into_the_converted_one(label: str, options) -> None:
    """Alpha keeps its start, the norms have no context yet, and what was trained is there.

    Running moments may be absent where the norm does not use them.
    """
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, **options), nn.ReLU(), nn.BatchNorm2d(4, **options))
    plain(torch.randn(6, 3, 8, 8))
    model = convert(copy.deepcopy(plain), label, start="paper")
    with tasknorm.context(model):
        for norm in (model[1], model[3]):
            norm.num_batches_tracked += 1  # Baseline asks for running moments
        model(torch.randn(6, 3, 8, 8))
    alphas = {name: value.clone() for name, value in model.state_dict().items() if "alpha" in name}
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.add_(1)
    if NORMS[label].tracks and "track_running_stats" in options:
        with pytest.raises(RuntimeError, match=r'Missing key.*"1.running_mean", "1.running_var", "3.running_mean"'):
            model.load_state_dict(plain.state_dict())
        return
    model.load_state_dict(plain.state_dict(), strict=True)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in alphas.items())
    assert model[1].context_size == model[3].context_size == 0


@pytest.mark.parametrize("label", NORMS)
def test_strict_loading_still_finds_what_is_missing(label: str) -> None:
    model = convert(nn.Sequential(nn.BatchNorm2d(4)), label)
    for lost in model.state_dict():
        state = {name: value for name, value in model.state_dict().items() if name != lost}
        with pytest.raises(RuntimeError, match=rf'Missing key.*"{lost}"'):
            model.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"Missing key.*0\.weight"):
        model.load_state_dict({})
    with pytest.raises(RuntimeError, match=r"Unexpected key.*other"):
        model.load_state_dict(nn.Sequential(nn.BatchNorm2d(4)).state_dict() | {"other": torch.zeros(1)})


@pytest.mark.parametrize("label", [name for name in NORMS if NORMS[name].by_running] + ["TaskNorm-r"])
def test_a_start_that_preserves_keeps_a_pretrained_network(label: str) -> None:
    net = resnet().eval()
    new = convert(net, label, start="preserve", running="fixed")
    context, x = images(25), images(8)
    if new[1].needs_context:
        with tasknorm.context(new):
            new(context)
        with tasknorm.target(new):
            kept = new(x)
        as_paper = convert(net, label, start="paper")
        with tasknorm.joint(as_paper, context_size=25):
            started = as_paper(torch.cat([context, x]))[25:]
        assert relative(kept, net(x)) < 0.02 < relative(started, net(x))
    else:
        torch.testing.assert_close(new(x), net(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("label", [name for name in NORMS if not NORMS[name].by_running and name != "TaskNorm-r"])
def test_norms_without_such_a_start_say_so_in_one_line(label: str) -> None:
    with pytest.warns(UserWarning, match=f"{label} does not start with .* train it before use") as said:
        new = convert(resnet(), label, start="preserve")
    assert len(said) == 1
    assert said[0].filename == __file__
    if isinstance(new[1], TaskNorm):
        torch.testing.assert_close(new[1].alpha(25), torch.tensor(0.98))


def test_only_a_trained_batch_norm_is_warned_of() -> None:
    fresh = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    convert(fresh, "TaskNorm-I")  # warnings are errors here
    convert(convert(resnet(), "CBN"), "TBN")
    convert(resnet(), "TaskNorm-I", start="paper")
    with pytest.raises(ValueError, match='start must be "paper" or "preserve"'):
        convert(fresh, "TaskNorm-I", start="near")  # type: ignore[arg-type]


@norms
def test_fixed_running_moments_do_not_move_in_training(label: str) -> None:
    new = convert(resnet(), label, start="paper", running="fixed").train()
    before = {name: value.clone() for name, value in new.state_dict().items() if "running" in name}
    with tasknorm.joint(new, context_size=6):
        new(images(10)).sum().backward()
    assert all(torch.equal(new.state_dict()[name], value) for name, value in before.items())
    assert convert(new, "CBN")[1].fixed
    assert not convert(new, "CBN", running="moving")[1].fixed
    with pytest.raises(ValueError, match='running must be "moving" or "fixed"'):
        NORMS[label](4, running="still")


def relative(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()

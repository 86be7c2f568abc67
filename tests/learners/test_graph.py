"""A learner as one graph is the learner, at sizes that it was never exported with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tasknorm
from tasknorm import NORMS, Episode
from tasknorm.learners import MAML, NCM, CNAPs, Learner, LearnerGraph, ProtoNets, export_learner
from tasknorm.nets import ResNet, maml_omniglot
from tasknorm.norms import TaskNorm

SIZES = ((25, 5, 11), (2, 2, 1), (1, 1, 3), (13, 7, 2), (40, 10, 30))  # context, way, targets


class Small(nn.Module):
    """A net of two norms: an export takes time for each node."""

    image_shape = (1, 6, 6)
    features = 24

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 5, 3, padding=1), nn.Conv2d(5, 6, 3, stride=2)
        self.norms = nn.ModuleList((norm(5), norm(6)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](self.first(x)).relu()
        return nn.functional.max_pool2d(self.norms[1](self.second(x)), 2, padding=1).relu().flatten(1)


def small(learner: str, label: str) -> Learner:
    """A learner with weights, running moments and alphas unlike those at the start."""
    torch.manual_seed(0)
    made: Learner
    if learner == "cnaps":
        net = ResNet(NORMS[label], widths=(4,), depth=1, film=True, image_shape=(1, 6, 6))
        made = CNAPs(net, NORMS[label], encoder_filters=4)
    else:
        made = {"protonets": ProtoNets, "ncm": NCM}[learner](Small(NORMS[label]))
    with torch.no_grad():
        for name, tensor in made.state_dict().items():
            if "running_var" in name:
                tensor.uniform_(0.5, 2)
            elif tensor.is_floating_point() and ("running" in name or "norm" in name or "size" in name):
                tensor.add_(0.2 * torch.randn_like(tensor))
        for module in made.modules():
            if isinstance(module, TaskNorm) and module.alpha_scale is not None:
                module.alpha_scale.fill_(0.05)
    return made.eval()


def task(context: int, way: int, targets: int) -> tuple[Episode, tuple[Tensor, Tensor, Tensor]]:
    x, target = torch.rand(context, 1, 6, 6), torch.rand(targets, 1, 6, 6)
    y = torch.arange(context) % way
    nothing = torch.zeros(targets, dtype=torch.long)
    return Episode(x, y, target, nothing), (x, nn.functional.one_hot(y, way).float(), target)


@torch.no_grad()
def check(ours: Any, learner: Learner, tolerance: float) -> None:
    for size in SIZES:
        episode, inputs = task(*size)
        expected = learner(episode)
        found = torch.as_tensor(np.asarray(ours(*inputs)))
        assert found.shape == expected.shape == (size[2], size[1])
        assert float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


def session(file: Path) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def in_onnxruntime(file: Path) -> Any:
    made = session(file)
    names = [each.name for each in made.get_inputs()]
    return lambda *inputs: made.run(["logits"], dict(zip(names, (each.numpy() for each in inputs), strict=True)))[0]


@pytest.mark.parametrize(
    ("learner", "label"), [("ncm", "TaskNorm-I"), ("protonets", "TBN"), *(("cnaps", label) for label in NORMS)]
)
def test_an_exported_program_is_the_learner(learner: str, label: str, tmp_path: Path) -> None:
    made = small(learner, label)
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    export_learner(made, tmp_path / "learner.pt2")
    program = torch.export.load(tmp_path / "learner.pt2").module()
    check(program, made, 1e-5)
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.state_dict().items())


@pytest.mark.parametrize(
    ("learner", "label"),
    [("ncm", "CBN"), ("cnaps", "TaskNorm-I"), *(("protonets", label) for label in NORMS)],
)
def test_onnxruntime_gives_the_learners_logits(learner: str, label: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    made = small(learner, label)
    export_learner(made, tmp_path / "learner.onnx", about={"preparation": {"size": 6}})
    check(in_onnxruntime(tmp_path / "learner.onnx"), made, 1e-5)
    opened = session(tmp_path / "learner.onnx")
    assert [each.name for each in opened.get_inputs()] == ["context_images", "labels", "target_images"]
    about = json.loads(opened.get_modelmeta().custom_metadata_map["tasknorm"])
    assert about["learner"] == made.label
    assert about["norms"] == label
    assert about["transductive"] is NORMS[label].transductive
    assert about["image_shape"] == [1, 6, 6]
    assert about["preparation"] == {"size": 6}
    assert str(Path(tasknorm.__file__).parent).encode() not in (tmp_path / "learner.onnx").read_bytes()


def test_all_moments_follow_from_those_that_a_graph_gives(tmp_path: Path) -> None:
    """Batch moments of a context by the law of total variance, from the graph's instance moments."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    made = small("protonets", "MetaBN")
    export_learner(made, tmp_path / "learner.onnx", moments=True)
    (x, y, target) = task(9, 3, 2)[1]
    opened = session(tmp_path / "learner.onnx")
    given = {"context_images": x.numpy(), "labels": y.numpy(), "target_images": target.numpy()}
    found = dict(zip((each.name for each in opened.get_outputs()), opened.run(None, given), strict=True))
    net = made.net
    with tasknorm.context(net):
        net(x)
    for number in range(2):
        mean, var = found[f"moments norms.{number}"][:, :9]
        norm = net.norms[number]
        np.testing.assert_allclose(mean.mean(0), norm.context_mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(var.mean(0) + mean.var(0), norm.context_var, rtol=1e-4, atol=1e-5)


def test_what_labels_without_a_class_do() -> None:
    """A class without examples is not a number and leaves the others alone; a row of zeros counts for the moments."""
    graph = LearnerGraph(small("protonets", "TaskNorm-I"))
    x, y, target = task(6, 3, 2)[1]
    wider = nn.functional.pad(y, (0, 1))
    torch.testing.assert_close(graph(x, wider, target)[:, :3], graph(x, y, target))
    assert graph(x, wider, target)[:, 3].isnan().all()
    extra = torch.cat((x, torch.ones(1, 1, 6, 6)))
    assert not torch.allclose(graph(extra, nn.functional.pad(y, (0, 0, 0, 1)), target), graph(x, y, target))


def test_a_learner_by_gradients_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="MAML learns a task by gradients, which an exported graph cannot compute"):
        export_learner(MAML(maml_omniglot(NORMS["TBN"], filters=4)), tmp_path / "learner.pt2")
    assert not list(tmp_path.iterdir())


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"ends in \.pt2 or \.onnx, got 'learner.bin'"):
        export_learner(small("protonets", "TBN"), tmp_path / "learner.bin")


def test_a_net_that_does_not_know_its_images_is_refused(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), NORMS["TBN"](4), nn.Flatten())
    with pytest.raises(ValueError, match="has no attribute image_shape"):
        export_learner(ProtoNets(net), tmp_path / "learner.pt2")

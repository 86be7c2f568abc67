"""A learner as one graph: context images, one-hot labels and target images go in, logits come out.

ProtoNets, NCM and CNAPs learn a task by forward passes alone, so that learning itself can be exported: few-shot
learning then runs wherever ONNX does. The graph is the joint phase of one task, whose context size is symbolic.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tasknorm.kernels import instance_moments
from tasknorm.learners.learner import Learner
from tasknorm.learners.predictor_file import norms_of
from tasknorm.learners.program import check_program_file, first_output, write_program
from tasknorm.learners.tasks import Tasks
from tasknorm.norms import Norm

FORMAT = "tasknorm learner 1"
INPUTS = ("context_images", "labels", "target_images")
LARGEST = 1 << 16  # context images, classes and targets
EXAMPLE = (6, 3, 4)  # context images, classes and targets of the call that is recorded; none of these may be 1


class LearnerGraph(nn.Module):
    """A learner as a function of one task's tensors, at meta-test.

    Args:
        learner: a learner that learns by forward passes alone; a copy of it is kept, in `eval()`.
        moments: also return the instance moments of the input of each norm that targets pass, from which all moments of
            the paper follow.

    Raises:
        ValueError: if the learner learns by gradients.
    """

    def __init__(self, learner: Learner, *, moments: bool = False) -> None:
        super().__init__()
        if type(learner).logits is Learner.logits:
            raise ValueError(
                f"{learner.label or type(learner).__name__} learns a task by gradients, which an exported graph cannot "
                "compute; export a learner that learns by forward passes alone (ProtoNets, NCM or CNAPs), or adapt "
                "this one to a context and export the predictor: learner.adapt(images, labels).export(file, images)"
            )
        self.learner = copy.deepcopy(learner).eval().requires_grad_(False)
        net = self.learner.target_net
        self.watched = [name for name, module in net.named_modules() if moments and isinstance(module, Norm)]

    @property
    def outputs(self) -> list[str]:
        """Names of what the graph returns."""
        return ["logits", *(f"moments {name.removeprefix('net.')}" for name in self.watched)]

    def forward(self, context_x: Tensor, labels: Tensor, target_x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Logits `(target, way)`, and with `moments` a table `(2, context + target, C)` of each norm: mean, variance.

        Args:
            context_x: images `(context, ...)`, scaled as in training.
            labels: floats `(context, way)`, one-hot. A class without a 1 has logits that are not a number. A row of
                zeros belongs to no class, but is part of the context whose moments the norms use.
            target_x: images `(target, ...)`.
        """
        nothing = labels.new_zeros(1, 0)
        tasks = Tasks(context_x[None], labels[None], target_x[None], nothing, way=labels.shape[1])
        seen: list[Tensor] = []
        norms = [self.learner.target_net.get_submodule(name) for name in self.watched]
        hooks = [norm.register_forward_pre_hook(lambda _, inputs: seen.append(_moments(*inputs))) for norm in norms]
        try:
            logits = self.learner.logits(tasks)[0]
        finally:
            for hook in hooks:
                hook.remove()
        return (logits, *seen) if seen else logits


def _moments(x: Tensor) -> Tensor:
    _, moments = instance_moments(x.unsqueeze(-1) if x.ndim == 2 else x)
    return torch.stack(moments)


@torch.no_grad()
def export_learner(
    learner: Learner, file: str | Path, *, about: Mapping[str, Any] | None = None, moments: bool = False
) -> None:
    """Write a learner as one graph, (context images, one-hot labels, target images) -> logits, for tasks of any size.

    Args:
        learner: a learner that learns by forward passes alone, whose net knows its `image_shape`.
        file: ends in `.onnx` (needs the extra `tasknorm[onnx]`), or in `.pt2` (`torch.export.load(file).module()`). In
            both, an entry "tasknorm" says as JSON what the graph is.
        about: more to say there, such as how images are prepared.
        moments: let the graph also return the instance moments of each norm's input (see `LearnerGraph`).

    Raises:
        ValueError: if the learner learns by gradients, or the file's name ends otherwise.
        RuntimeError: if the graph's logits are not the learner's; the file is then not written.

    >>> from tasknorm import NORMS, nets
    >>> from tasknorm.learners import ProtoNets
    >>> learner = ProtoNets(nets.protonets_conv4(NORMS["TaskNorm-I"], filters=4))
    >>> export_learner(learner, getfixture("tmp_path") / "learner.pt2")
    """
    file = Path(file)
    check_program_file(file)
    graph = LearnerGraph(learner, moments=moments)
    shape = _image_shape(graph.learner)
    first, second = _task(shape, *EXAMPLE, seed=0), _task(shape, 5, 2, 1, seed=1)
    context, way, target = (torch.export.Dim(name, min=1, max=LARGEST) for name in ("context", "way", "target"))
    shapes = ({0: context}, {0: context, 1: way}, {0: target})
    program = torch.export.export(graph, first, dynamic_shapes=shapes, strict=False)  # torch's default from 2.9 on
    calls = [(task, first_output(graph(*task))) for task in (first, second)]
    write_program(program, file, _about(graph, shape) | dict(about or {}), calls, inputs=INPUTS, outputs=graph.outputs)


def _about(graph: LearnerGraph, shape: tuple[int, ...]) -> dict[str, Any]:
    transductive = any(module.transductive for module in graph.learner.target_net.modules() if isinstance(module, Norm))
    return {
        "format": FORMAT,
        "version": version("tasknorm"),
        "learner": graph.learner.label,
        "norms": norms_of(graph.learner.target_net),
        "transductive": transductive,
        "image_shape": list(shape),
    }


def _image_shape(learner: Learner) -> tuple[int, ...]:
    for module in learner.modules():
        if shape := getattr(module, "image_shape", None):
            return tuple(shape)
    raise ValueError(
        f"the net of {type(learner).__name__} must say the shape of its images, and has no attribute image_shape; set "
        "net.image_shape = (channels, height, width)"
    )


def _task(shape: tuple[int, ...], context: int, way: int, targets: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """A task of noise."""
    random = torch.Generator().manual_seed(seed)
    labels = nn.functional.one_hot(torch.arange(context) % way, way).float()
    return torch.rand(context, *shape, generator=random), labels, torch.rand(targets, *shape, generator=random)

"""What the page plays with: learners by norm, from the weights that ship with the package or from a run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch import nn

from tasknorm.conversion import convert
from tasknorm.errors import SettingsError
from tasknorm.learners import Learner, LearnerGraph, ProtoNets, export_learner
from tasknorm.nets import protonets_conv4
from tasknorm.norms import GN, NORMS, Norm, TaskNorm
from tasknorm.runs import Adapter, served_norms
from tasknorm.training import label, load_into, read_weights

WEIGHTS = Path(__file__).parent / "weights"
TRAINED = {"TaskNorm-I": "TaskNorm-I", "TBN": "CBN", "CBN": "CBN"}  # TBN and CBN share a training
FILTERS = 32
DRAWING = {"kind": "drawing", "size": 28, "channels": 1, "scale": "unit", "resize": "antialiased", "inverted": False}


@dataclass(frozen=True)
class Model:
    """A learner with one norm.

    Args:
        norm: the norm's label.
        graph: the learner as a function of tensors, which also gives moments.
        onnx: the same as an ONNX file's content, for browsers; None if there is none.
    """

    norm: str
    graph: LearnerGraph
    onnx: bytes | None = None

    def about(self) -> dict[str, Any]:
        """What the page needs to know of it."""
        net = self.graph.learner.target_net
        norms = [(name, net.get_submodule(name)) for name in self.graph.watched]
        transductive = any(isinstance(norm, Norm) and norm.transductive for _, norm in norms)
        layers = [_layer(name.removeprefix("net."), i, norm) for i, (name, norm) in enumerate(norms)]
        graph = f"graphs/{self.norm}.onnx" if self.onnx is not None else None
        return {"norm": self.norm, "transductive": transductive, "layers": layers, "graph": graph}


@dataclass(frozen=True)
class Playable:
    """The learners that a page shows side by side, all with one preparation of images.

    Args:
        models: the learners.
        preparation: how images are prepared: kind (drawing or picture), size, channels, scale, resize and inverted.
        words: what they are, in a sentence.
        drawings: whether the page may draw samples for them.
    """

    models: tuple[Model, ...]
    preparation: dict[str, Any]
    words: str
    drawings: bool = True

    def about(self) -> dict[str, Any]:
        """What the page needs to know."""
        models = [model.about() for model in self.models]
        return {
            "models": models,
            "preparation": self.preparation,
            "words": self.words,
            "drawings": self.drawings,
        }


def embedded() -> Playable:
    """The learners that ship with the package: ProtoNets on Conv-4, trained on glyphs (see `making`)."""
    about = json.loads((WEIGHTS / "about.json").read_text())
    models = tuple(
        Model(norm, LearnerGraph(embedded_learner(norm), moments=True), (WEIGHTS / f"{norm}.onnx").read_bytes())
        for norm in TRAINED
    )
    return Playable(models, DRAWING, about["words"])


def embedded_learner(norm: str, folder: Path = WEIGHTS) -> Learner:
    """One of the learners that ship with the package, by its norm: TaskNorm-I, TBN or CBN."""
    kind = TRAINED[norm]
    options: dict[str, Any] = {"alpha": "functional-shared"} if issubclass(NORMS[kind], TaskNorm) else {}
    learner = ProtoNets(protonets_conv4(partial(NORMS[kind], **options), filters=FILTERS))
    file = folder / f"{kind}.safetensors"
    load_into(learner, read_weights(file, label("protonets", kind)), file)
    return (learner if kind == norm else convert(learner, norm)).eval()


def of_run(folder: Path, *, for_browser: bool) -> Playable:
    """The learners of a run: one for each norm that shares its training.

    Args:
        folder: the run's folder.
        for_browser: also make their ONNX graphs, which takes some seconds and the extra `tasknorm[onnx]`.

    Raises:
        SettingsError: if the folder holds no finished training, or its learner learns by gradients.
    """
    runs = [Adapter(folder, norm) for norm in served_norms(folder)]
    first = runs[0]
    try:
        models = tuple(
            Model(run.norm, LearnerGraph(run.learner, moments=True), onnx_of(run.learner) if for_browser else None)
            for run in runs
        )
    except ValueError as error:
        raise SettingsError(f"{folder}: {error}") from None
    preparation = first.preparation.model_dump()
    words = f"{first.learner.label} of the run {folder.resolve().name}."
    return Playable(models, {"kind": "picture"} | preparation, words, drawings=preparation["channels"] == 1)


def onnx_of(learner: Learner) -> bytes:
    """A learner's graph, with moments, as the content of an ONNX file."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "learner.onnx"
        export_learner(learner.cpu(), file, moments=True)
        return file.read_bytes()


def _layer(name: str, number: int, norm: nn.Module) -> dict[str, Any]:
    assert isinstance(norm, Norm)
    running = norm.running
    made: dict[str, Any] = {
        "name": name,
        "title": f"{number + 1}",
        "channels": norm.num_features,
        "running": {"mean": running.mean.tolist(), "variance": running.var.tolist()},
        "alpha": None,
    }
    if isinstance(norm, TaskNorm):
        scale = None if norm.alpha_scale is None else norm.alpha_scale.tolist()
        made["alpha"] = {"scale": scale, "offset": norm.alpha_offset.tolist()}
    if isinstance(norm, GN):
        made["groups"] = norm.num_groups
    return made

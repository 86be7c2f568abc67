"""A learner adapted to one task: classifies targets when they come, one at a time if need be."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from tasknorm.errors import WeightsError, at, reason
from tasknorm.files import write_atomically
from tasknorm.learners.predictor_file import FORMAT, norms_of, read_predictor
from tasknorm.learners.tasks import check_images
from tasknorm.phase import release, target_for_life


class Predictor(nn.Module):
    """A net with its task's weights and context moments, and the task's linear classifier.

    It has learned: it stays in `eval()` and in its target phase, also as a copy, so that any number of threads may call
    it at once.

    Args:
        net: the adapted net, which has seen the context; the predictor keeps it, in `eval()`, in its target phase and
            without gradients. For another context, take a copy (`copy.deepcopy(predictor.net)`), which is in no phase.
        weight, bias: of the linear classifier on the net's features, `(way, features)` and `(way,)`; None if the net
            has a classifier of its own.
    """

    weight: Tensor | None
    bias: Tensor | None

    def __init__(self, net: nn.Module, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        super().__init__()
        target_for_life(net)
        self.net = net
        self.register_buffer("weight", None if weight is None else weight.detach().clone())
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        super().train(False)
        self.requires_grad_(False)

    def forward(self, target_x: Tensor) -> Tensor:
        """Logits `(target, way)` of images `(target, ...)`: floats, scaled as in training; a numpy array will do.

        Raises:
            ValueError: if they have another shape than the net's, or are bytes or numbers from 0 to 255.
        """
        target_x = check_images(self.net, target_x)
        features: Tensor = self.net(target_x)
        if self.weight is None:
            return features
        return nn.functional.linear(features, self.weight, self.bias)

    def in_sets(self, target_x: Tensor, sets: int) -> Tensor:
        """As `forward`, for several target sets of equal size, end to end: each as if it had come alone."""
        apart = _sharing(self)
        release(apart.net)
        target_for_life(apart.net, sets)
        logits: Tensor = apart(target_x)
        return logits

    def train(self, mode: bool = True) -> Predictor:
        """Change nothing: in training, targets would be normalised with each other and move running moments."""
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        """For copy and pickle, which take a norm out of its phase."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        target_for_life(self.net)

    @torch.no_grad()
    def predict(self, target_x: Tensor) -> Tensor:
        """The class of each image, `(target,)`."""
        logits: Tensor = self(target_x)
        return logits.argmax(1)

    def save(self, file: str | Path) -> None:
        """Write all that the predictor holds to a safetensors file, whole or not at all."""
        tensors = {name: tensor.contiguous() for name, tensor in self.state_dict().items()}
        if self.weight is not None and self.bias is None:  # so that a file without one is known to be damaged
            tensors["bias"] = self.weight.new_zeros(len(self.weight))
        classifier = "none" if self.weight is None else str(tuple(self.weight.shape))
        metadata = {"format": FORMAT, "norms": norms_of(self.net), "classifier": classifier}
        write_atomically(Path(file), safetensors.torch.save(tensors, metadata=metadata))

    @classmethod
    def load(cls, file: str | Path, net: nn.Module) -> Predictor:
        """The predictor of a file that `save` wrote.

        Args:
            file: its path.
            net: a net of the same make; its weights are replaced.

        Raises:
            WeightsError: if the file is damaged or no predictor, or is of another net or another norm; the net then
                stays as it was.
        """
        tensors = read_predictor(Path(file), net)
        if shape := getattr(net, "image_shape", None):
            _try(Path(file), _loaded(copy.deepcopy(net), tensors), shape)
        return _loaded(net, tensors)

    @torch.no_grad()
    def export(self, file: str | Path, example: Tensor) -> None:
        """Write the predictor as a program of its own, which needs no Python class: by `torch.export`, or as ONNX.

        Args:
            file: ends in `.pt2` (load with `torch.export.load(file).module()`) or `.onnx` (needs the extra
                `tasknorm[onnx]`). The program takes batches of any size.
            example: some images `(target, ...)`, at least two; on them the program is compared with the predictor.

        Raises:
            ValueError: if the name ends otherwise or there are too few images.
            RuntimeError: if the program's logits are not the predictor's.
        """
        file = Path(file)
        if file.suffix not in (".pt2", ".onnx"):
            raise ValueError(f"a predictor exports to a file that ends in .pt2 or .onnx, got {file.name!r}")
        if len(example) < 2:
            raise ValueError(f"export needs an example of at least two images, got {len(example)}")
        example = check_images(self.net, example)
        batch = torch.export.Dim("batch", min=1, max=1 << 16)
        program = torch.export.export(self, (example,), dynamic_shapes=({0: batch},))
        with TemporaryDirectory(dir=file.parent, prefix=".export-") as folder:
            part = Path(folder) / file.name
            if file.suffix == ".onnx":
                _write_onnx(program, part)
            else:
                torch.export.save(program, part)
            for images in (example, example[:1]):
                difference = (_run(part, images) - self(images)).abs().max()
                if not difference <= 1e-3 * self(images).abs().max().clamp(min=1):
                    raise RuntimeError(
                        f"{file} was not written: its logits differ from the predictor's by {difference:.1e}"
                    )
            part.replace(file)


def _sharing(predictor: Predictor) -> Predictor:
    """A copy of the modules with the same tensors."""
    tensors = chain(predictor.parameters(), predictor.buffers())
    return copy.deepcopy(predictor, {id(tensor): tensor for tensor in tensors})


def _loaded(net: nn.Module, tensors: dict[str, Tensor]) -> Predictor:
    predictor = Predictor(net, tensors.get("weight"), tensors.get("bias"))
    predictor.load_state_dict(tensors)
    return predictor


@torch.no_grad()
def _try(file: Path, predictor: Predictor, image_shape: Sequence[int]) -> None:
    """Raise if the predictor's classifier is for other features than the net's."""
    like = next(predictor.net.parameters())
    try:
        predictor(like.new_zeros(1, *image_shape))
    except RuntimeError as error:
        raise WeightsError(
            f"{at(file, 'weight')}: damaged, the classifier is for other features than the net's "
            f"({reason(error)}); save it again"
        ) from None


def _write_onnx(program: torch.export.ExportedProgram, file: Path) -> None:
    try:
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError("ONNX needs packages of its own; install them: pip install 'tasknorm[onnx]'") from error
    torch.onnx.export(program, dynamo=True, verbose=False).save(str(file))  # type: ignore[union-attr]


def _run(file: Path, images: Tensor) -> Tensor:
    """The logits of the program in the file."""
    if file.suffix == ".pt2":
        logits: Tensor = torch.export.load(file).module()(images)
        return logits
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(file))
    outputs: Any = evaluator.run(None, {evaluator.input_names[0]: images.cpu().numpy()})
    return torch.as_tensor(outputs[0])

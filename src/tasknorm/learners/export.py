"""A predictor as a program of its own, by `torch.export` or as ONNX, which says how to use it."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tasknorm.errors import DataError
from tasknorm.learners.program import check_program_file, write_program
from tasknorm.learners.tasks import check_images

if TYPE_CHECKING:
    from tasknorm.learners.predictor import Predictor

FORMAT = "tasknorm predictor's program 1"


@torch.no_grad()
def export(predictor: Predictor, file: Path, example: Tensor | None = None) -> None:
    """Write a predictor as a program (see `Predictor.export`)."""
    check_program_file(file)
    example = _example(predictor) if example is None else check_images(predictor.net, example)
    if len(example) < 2:
        raise DataError(f"export needs an example of at least two images, got {len(example)}; pass more")
    batch = torch.export.Dim("batch", min=1, max=1 << 16)
    program = torch.export.export(predictor, (example,), dynamic_shapes=({0: batch},), strict=False)
    calls = [((images,), predictor(images)) for images in (example, example[:1])]
    write_program(program, file, _about(predictor), calls, inputs=["images"], outputs=["logits"])


def _about(predictor: Predictor) -> dict[str, Any]:
    """Enough to prepare images for the program, and to read its logits.

    The probabilities are `softmax(logits / temperature)`; if the largest is below the threshold, the answer is "none
    of these".
    """
    preparation, calibration = predictor.preparation, predictor.calibration
    return {
        "format": FORMAT,
        "version": version("tasknorm"),
        "learner": predictor.learner,
        "names": list(predictor.names),
        "label": predictor.label,
        "preparation": None if preparation is None else preparation.model_dump(),
        "temperature": calibration.temperature,
        "threshold": calibration.threshold_for(len(predictor.names)),
    }


def _example(predictor: Predictor) -> Tensor:
    """Images of noise, of the shape that the net takes."""
    shape = getattr(predictor.net, "image_shape", None) or (predictor.preparation and predictor.preparation.shape)
    if not shape:
        raise DataError("the shape of the net's images is unknown; pass some as an example: export(file, images)")
    like = next(predictor.net.parameters())
    return torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(like)

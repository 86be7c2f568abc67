"""A file that holds a program of its own, which needs no class of this package: by `torch.export`, or as ONNX."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from tasknorm.errors import DataError

SUFFIXES = (".pt2", ".onnx")
ABOUT = "tasknorm"  # the entry of a file's metadata that says, as JSON, what the program is

Call = tuple[tuple[Tensor, ...], Tensor]  # inputs of a program, and its first output


def check_program_file(file: Path) -> None:
    """Raise if the name is not one of a program's file."""
    if file.suffix not in SUFFIXES:
        raise DataError(f"a program is written to a file that ends in .pt2 or .onnx, got {file.name!r}; rename it")
    if file.suffix == ".onnx":
        try:
            import onnxscript  # noqa: F401
        except ImportError as error:
            raise ModuleNotFoundError(
                "ONNX needs packages of its own; install them: pip install 'tasknorm[onnx]'"
            ) from error


def write_program(
    program: torch.export.ExportedProgram,
    file: Path,
    about: Mapping[str, Any],
    calls: Sequence[Call],
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> None:
    """Write a program, whole or not at all, after its file has given the right results.

    Args:
        program: what `torch.export.export` made.
        file: ends in `.pt2` (load with `torch.export.load(file).module()`) or `.onnx`.
        about: what the program is. A `.pt2` file holds it as the extra file "tasknorm", an `.onnx` file as the metadata
            "tasknorm", both as JSON.
        calls: inputs and the first output that the file must give for them, to 0.001 of the largest number.
        inputs, outputs: the names that ONNX gives them.

    Raises:
        DataError: if the file's name ends otherwise.
        ModuleNotFoundError: if ONNX's packages are missing.
        RuntimeError: if the file's results differ.
    """
    check_program_file(file)
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # where in which file of this machine it was made
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=file.parent, prefix=".export-") as folder:
        part = Path(folder) / file.name
        if file.suffix == ".onnx":
            _write_onnx(program, part, json.dumps(about), inputs, outputs)
        else:
            torch.export.save(program, part, extra_files={ABOUT: json.dumps(about)})
        run = loaded_program(part)
        for given, expected in calls:
            difference = (run(*given) - expected).abs().max()
            if not difference <= 1e-3 * expected.abs().max().clamp(min=1):
                raise RuntimeError(
                    f"{file} was not written: its results differ from the model's by {difference:.1e}; report this"
                )
        part.replace(file)


def loaded_program(file: Path) -> Callable[..., Tensor]:
    """The program in a file, as a function that gives its first output."""
    if file.suffix == ".pt2":
        module = torch.export.load(file).module()
        return lambda *inputs: first_output(module(*inputs))
    if find_spec("onnxruntime") is not None:  # a hundred times as fast
        from onnxruntime import InferenceSession

        evaluator: Any = InferenceSession(str(file), providers=["CPUExecutionProvider"])
        names = [given.name for given in evaluator.get_inputs()]
    else:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(str(file))
        names = evaluator.input_names

    def run(*inputs: Tensor) -> Tensor:
        arrays = {name: each.cpu().numpy() for name, each in zip(names, inputs, strict=True)}
        return torch.as_tensor(evaluator.run(None, arrays)[0])

    return run


def first_output(found: Any) -> Tensor:
    """The output of a program that has one, or the first of several."""
    first: Tensor = found if isinstance(found, Tensor) else found[0]
    return first


def _write_onnx(
    program: torch.export.ExportedProgram, file: Path, about: str, inputs: Sequence[str], outputs: Sequence[str]
) -> None:
    quieted = logging.getLogger("torch.onnx")  # it names packages that nobody needs here
    level = quieted.level
    quieted.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter's own code
            made: Any = torch.onnx.export(
                program, dynamo=True, verbose=False, input_names=list(inputs), output_names=list(outputs)
            )
    finally:
        quieted.setLevel(level)
    model = made.model
    for part in (model, model.graph, *model.graph.all_nodes()):  # where in which file each node was made
        part.doc_string = None
        part.metadata_props.clear()
    model.metadata_props[ABOUT] = about
    made.save(str(file))

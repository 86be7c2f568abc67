"""Values of chunks that wait for their turn where no backward pass needs them: in memory, and beyond that in a file."""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tasknorm.chunks.program import Values
from tasknorm.errors import DataError, reason

IN_MEMORY = 1 << 26  # bytes; what comes later goes to the file


class _Place(NamedTuple):
    """Where in the file a tensor is, and how it lies in memory."""

    start: int
    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype


class Kept:
    """The values of each chunk, by its number, to be added in order and taken once or more.

    Tensors beyond `IN_MEMORY` bytes are in a temporary file without a name, which ends with this object or the process.
    Those that need a graph, or are on another device than the CPU, stay in memory.
    """

    def __init__(self, *, spills: bool) -> None:
        self._values: list[Values] = []
        self._spills = spills
        self._bytes = 0
        self._file: Any = None

    @classmethod
    def nothing(cls, chunks: int) -> Kept:
        """No values, for each of some chunks."""
        made = cls(spills=False)
        made._values = [{} for _ in range(chunks)]
        return made

    def add(self, values: Values) -> None:
        """Keep the values of the next chunk."""
        self._values.append({name: self._held(value) for name, value in values.items()})

    def __getitem__(self, chunk: int) -> Values:
        return {name: self._read(v) if isinstance(v, _Place) else v for name, v in self._values[chunk].items()}

    def close(self) -> None:
        """Forget all values."""
        self._values.clear()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _held(self, value: Any) -> Any:
        if not self._spills or not isinstance(value, Tensor) or value.device.type != "cpu" or value.requires_grad:
            return value
        self._bytes += value.nbytes
        return value if self._bytes <= IN_MEMORY else self._written(value)

    def _written(self, tensor: Tensor) -> _Place:
        if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
            tensor = tensor.contiguous()
        flat = tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115
            start = self._file.seek(0, 2)
            self._file.write(flat.view(torch.uint8).numpy())
        except OSError as error:
            raise DataError(
                f"the activations of a large context need a temporary file, and {tempfile.gettempdir()} takes no more "
                f"({reason(error)}); set TMPDIR to a folder with more room"
            ) from None
        return _Place(start, tensor.shape, tensor.stride(), tensor.dtype)

    def _read(self, place: _Place) -> Tensor:
        flat = torch.empty(place.shape.numel(), dtype=place.dtype)
        self._file.seek(place.start)
        self._file.readinto(flat.view(torch.uint8).numpy())
        return flat.as_strided(place.shape, place.strides)

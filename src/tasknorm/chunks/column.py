"""What chunks leave where no backward pass needs it: in memory, and beyond that in a temporary file."""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tasknorm.errors import DataError, reason

IN_MEMORY = 1 << 25  # bytes; what comes later goes to the file


class _Place(NamedTuple):
    """Where in the file a tensor is, and how it lies in memory."""

    start: int
    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype


class Column:
    """The values of all chunks under one name, to be added in order.

    The file has no name, and ends with this object or with the process. What is not on the CPU stays where it is.
    """

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._bytes = 0
        self._file: Any = None

    def add(self, value: Any) -> None:
        """Keep the value of the next chunk."""
        if isinstance(value, Tensor) and value.device.type == "cpu":
            self._bytes += value.nbytes
            if self._bytes > IN_MEMORY:
                value = self._written(value)
        self._values.append(value)

    def __getitem__(self, chunk: int) -> Any:
        value = self._values[chunk]
        return self._read(value) if isinstance(value, _Place) else value

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

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

"""The processes that share one training: each meta-batch's tasks are divided between them.

Started by `torchrun`, which tells each process its rank; without it there is one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from tasknorm.errors import LostProcessError


@dataclass(frozen=True)
class Processes:
    """This process among those that train together.

    Args:
        rank: its number.
        count: the number of processes.
        local: its number on this machine, and so of its device.
    """

    rank: int = 0
    count: int = 1
    local: int = 0
    _parent: int = field(default_factory=os.getppid)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.rank == 0

    def share(self, tasks: int) -> range:
        """Which of so many tasks are this process's: neighbours, so that they can pass together."""
        return range(self.rank * tasks // self.count, (self.rank + 1) * tasks // self.count)

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes; they wait for each other once, however many there are."""
        if self.count == 1 or not tensors:
            return
        kinds = {tensor.dtype: [t for t in tensors if t.dtype == tensor.dtype] for tensor in tensors}
        flat = {kind: torch.cat([t.detach().reshape(-1).to(_place()) for t in of]) for kind, of in kinds.items()}
        with _lost():
            for sent in [distributed.all_reduce(sums, async_op=True) for sums in flat.values()]:
                sent.wait()
        with torch.no_grad():
            for kind, of in kinds.items():
                for tensor, part in zip(of, flat[kind].split([t.numel() for t in of]), strict=True):
                    tensor.copy_(part.view_as(tensor))

    def same(self, value: Any) -> Any:
        """The first process's value, in every process."""
        if self.count == 1:
            return value
        values = [value]
        with _lost():
            distributed.broadcast_object_list(values)
        return values[0]

    def check_parent(self) -> None:
        """Raise if `torchrun` itself has been killed: nobody would ever end this process."""
        if self.count > 1 and os.getppid() != self._parent:
            raise LostProcessError("torchrun, which started this process, has ended")


@contextmanager
def connected(device: str) -> Iterator[Processes]:
    """The processes that `torchrun` started, connected by nccl on cuda and by gloo elsewhere; otherwise this one."""
    if "RANK" not in os.environ or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Processes()
        return
    rank, count, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if device == "cuda":
        torch.cuda.set_device(local)
    # Its functions have the connection as a default argument if there is one when they are imported, as an optimizer's
    # first step does. They would keep it and its threads after its end, and a thread that lets go of a tensor while
    # Python ends aborts the process. Imported now, they keep None.
    importlib.import_module("torch.distributed.nn.functional")
    store = PrefixStore(_attempt(), next(rendezvous("env://"))[0])
    with _lost():
        distributed.init_process_group("nccl" if device == "cuda" else "gloo", store=store, rank=rank, world_size=count)
    try:
        here = Processes(rank, count, local)
        here.same(None)  # nobody begins before everybody is there
        yield here
    finally:
        distributed.destroy_process_group()


def _attempt() -> str:
    """A name for each time that `torchrun --max-restarts` starts the processes.

    It keeps its store from one time to the next. Without a prefix of their own, new processes would find the addresses
    of the old ones there and wait for them for ever.
    """
    return f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def _place() -> torch.device:
    """Where tensors have to be to travel."""
    return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise LostProcessError(f"another process of this training has ended or cannot be reached ({error})") from error

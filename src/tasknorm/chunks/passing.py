"""A forward pass a chunk of examples at a time, exact in every phase.

Every moment follows from instance moments, a table with a number for each example and channel. So the chunks go in turn
from one cut of the net (see `program`) to the next and leave their rows of that table. The norm's arithmetic on the
table, once for all examples, gives the tables that normalise; then the chunks go on. For the backward pass only what is
alive at the cuts is kept. All between is computed again, chunk by chunk, which costs no convolution: their outputs are
what is kept. Where an activation is larger than what it is made from, as after the first convolution of a net, it is
not kept either, and its convolution is computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tasknorm.chunks.kept import Kept
from tasknorm.chunks.parts import InParts
from tasknorm.chunks.program import INPUT, Part, Program, Values, run, waits
from tasknorm.kernels import instance_moments
from tasknorm.moments import Moments
from tasknorm.norms import Norm, Tables


def passed(net: nn.Module, program: Program, x: Tensor | InParts, tasks: int, chunk: int) -> Tensor:
    """The net's output.

    Args:
        net: the net.
        program: its graph.
        x: a batch of images, `tasks` sets of equal size, one after the other.
        tasks: how many sets there are; a chunk has as many examples of each.
        chunk: how many examples of each set pass at a time.
    """
    return _Pass(net, program, _Batch(x, tasks, chunk)).output()


class _Batch:
    """A batch in chunks, each of which holds the same rows of every task."""

    def __init__(self, x: Tensor | InParts, tasks: int, chunk: int) -> None:
        self.x, self.tasks = x, tasks
        rows = len(x) // tasks
        self.sizes = [min(chunk, rows - start) for start in range(0, rows, chunk)]
        self._starts = range(0, rows, chunk)

    def images(self, chunk: int) -> Tensor:
        """The images of a chunk."""
        return self._rows(slice(self._starts[chunk], self._starts[chunk] + self.sizes[chunk]))

    def first(self) -> Tensor:
        """The first image of each task."""
        return self._rows(slice(1))

    def joined(self, chunks: list[Tensor]) -> Tensor:
        """What each chunk gave, as that of one batch."""
        if self.tasks == 1:
            return torch.cat(chunks)
        return torch.cat([each.unflatten(0, (self.tasks, -1)) for each in chunks], 1).flatten(0, 1)

    def divided(self, table: Tensor) -> list[Tensor]:
        """Each chunk's rows of a table; the table itself where examples share it."""
        if table.ndim < 2 or len(table) != len(self.x):
            return [table] * len(self.sizes)
        if self.tasks == 1:
            return list(table.split(self.sizes))
        return [each.flatten(0, 1) for each in table.unflatten(0, (self.tasks, -1)).split(self.sizes, 1)]

    def _rows(self, part: slice) -> Tensor:
        if isinstance(self.x, InParts):
            return self.x.rows(part)
        return self.x[part] if self.tasks == 1 else self.x.unflatten(0, (self.tasks, -1))[:, part].flatten(0, 1)


class _Read(NamedTuple):
    """The instance moments of a chunk of activations, and a tensor like one of these activations, without values."""

    mean: Tensor
    var: Tensor
    like: Tensor

    @classmethod
    def of(cls, a: Tensor) -> tuple[Tensor, _Read]:
        """The activations, which are to be used in their place (see `instance_moments`), and what is read of them."""
        read, (mean, var) = instance_moments(a.unsqueeze(-1) if a.ndim == 2 else a)
        return read.view_as(a), cls(mean, var, a.detach().new_empty(()).expand(a.shape[1:]))


class _Pass:
    """One forward pass."""

    def __init__(self, net: nn.Module, program: Program, batch: _Batch) -> None:
        self._program, self._batch = program, batch
        self._modules = {name: net.get_submodule(name) for name in program.targets}
        self._constants: Values = {name: _attribute(net, path) for name, path in program.constants.items()}
        self._restored = _restoring(module for each in self._modules.values() for module in each.modules())
        self._tables: dict[str, list[Tables]] = {}
        self._graph = torch.is_grad_enabled()

    def output(self) -> Tensor:
        """The net's output for the batch."""
        program, chunks = self._program, range(len(self._batch.sizes))
        start, kept = 0, Kept.nothing(len(chunks))
        for cut, keeps in enumerate(self._keeps(), 1):
            found, reads = self._to_cut(start, kept, cut, keeps=keeps)
            for norm in program.norms_at(cut):
                self._normalise(norm, [read[norm] for read in reads])
            if keeps:
                kept.close()
                start, kept = cut, found
        part = program.part(start, program.cuts)
        outputs = [self._computed(part, kept[chunk], chunk, lambda made: made)[program.output] for chunk in chunks]
        kept.close()
        return self._batch.joined(outputs)

    def _keeps(self) -> list[bool]:
        """The plan of the program, which needs to know how large values are: as for one example of each task."""
        program, images = self._program, self._batch.first()
        if (plan := program.plans.get(images.shape[1:])) is not None:
            return plan
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            part = program.part(0, program.cuts)
            values = run(part, {INPUT: images} | self._constants, dict.fromkeys(program.norms), self._modules)
        plan = program.keeps({name: v.numel() if isinstance(v, Tensor) else 0 for name, v in values.items()})
        return program.plans.setdefault(images.shape[1:], plan)

    def _to_cut(self, start: int, kept: Kept, cut: int, *, keeps: bool) -> tuple[Kept, list[dict[str, _Read]]]:
        """Bring all chunks to a cut: what is alive there, if it is to be kept, and what its norms read."""
        program, norms = self._program, self._program.norms_at(cut)
        part, alive = program.part(start, cut, moments=not keeps), set(program.alive(cut))
        found, reads = Kept(spills=not self._graph), []
        for chunk in range(len(self._batch.sizes)):
            before = kept[chunk]
            if keeps:
                values = before | self._computed(part, before, chunk, lambda made: made)
                read = {norm: _Read.of(values[waits(norm)]) for norm in norms}
                values |= {waits(norm): a for norm, (a, _) in read.items()}
                found.add({name: value for name, value in values.items() if name in alive})
                reads.append({norm: each for norm, (_, each) in read.items()})
            else:
                reads.append(
                    self._computed(part, before, chunk, lambda made: {n: _Read.of(made[waits(n)])[1] for n in norms})
                )
        return found, reads

    def _computed(self, part: Part, values: Values, chunk: int, last: Callable[[Values], Values]) -> Values:
        """What `last` makes of what a part gives for a chunk; all between is forgotten, and computed again."""
        needed = {name: values[name] for name in part.needs if name != INPUT} | self._constants
        tables = {norm: self._tables[norm][chunk] for norm in part.norms}

        def compute(device: Tensor, needed: Values, tables: dict[str, Tables]) -> Values:
            images = {INPUT: self._batch.images(chunk)} if INPUT in part.needs else {}
            made = run(part, needed | images, tables, self._modules)
            return last({name: made[name] for name in part.gives})

        like = self._batch.x.images if isinstance(self._batch.x, InParts) else self._batch.x
        if not self._graph:
            return compute(like, needed, tables)
        made: Values = checkpoint(
            compute, like, needed, tables, use_reentrant=False, context_fn=lambda: (nullcontext(), self._restored())
        )
        return made

    def _normalise(self, norm: str, reads: list[_Read]) -> None:
        """The norm's arithmetic on the instance moments of all chunks; its tables are there for what follows."""
        module, like, batch = self._modules[self._program.norms[norm]], reads[0].like, self._batch
        assert isinstance(module, Norm)
        moments = Moments(batch.joined([read.mean for read in reads]), batch.joined([read.var for read in reads]))
        tables = module.tables(like.expand(len(batch.x), *like.shape), lambda a: (a, moments))
        self._tables[norm] = [Tables(*each) for each in zip(*map(batch.divided, tables), strict=True)]


def _attribute(net: nn.Module, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    return getattr(net.get_submodule(parent), name)


def _restoring(modules: Iterable[nn.Module]) -> Callable[[], AbstractContextManager[None]]:
    """Contexts in which modules have the weights and buffers that they have now, as of `functional_call`."""
    first = [
        (module, {"_parameters": dict(module._parameters), "_buffers": dict(module._buffers)})
        for module in modules
        if module._parameters or module._buffers
    ]

    @contextmanager
    def restored() -> Iterator[None]:
        now = [(module, {name: module.__dict__[name] for name in state}) for module, state in first]
        for module, state in first:
            module.__dict__.update(state)
        try:
            yield
        finally:
            for module, state in now:
                module.__dict__.update(state)

    return restored

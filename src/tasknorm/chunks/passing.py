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
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tasknorm.chunks.block import Block
from tasknorm.chunks.column import Column
from tasknorm.chunks.parts import InParts
from tasknorm.chunks.program import INPUT, Part, Program, Values, run, waits
from tasknorm.kernels import instance_moments
from tasknorm.moments import Moments
from tasknorm.norms import Norm, Tables

_Columns = dict[str, Any]  # for each value that is alive, a Block or a Column


def passed(net: nn.Module, program: Program, x: Tensor | InParts, tasks: int, chunk: int, *, lean: bool) -> Tensor:
    """The net's output.

    Args:
        net: the net.
        program: its graph.
        x: a batch of images, `tasks` sets of equal size, one after the other.
        tasks: how many sets there are; a chunk has as many examples of each.
        chunk: how many examples of each set pass at a time.
        lean: keep less, and compute more again.
    """
    return _Pass(net, program, _Batch(x, tasks, chunk), lean=lean).output()


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

    def in_order(self, rows: Tensor) -> Tensor:
        """The rows of all chunks, one after the other, as those of the batch."""
        return rows if self.tasks == 1 else self.joined(list(rows.split([self.tasks * size for size in self.sizes])))

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
    """The instance moments of activations, and a tensor like one example of these, without values."""

    moments: Moments
    like: Tensor


class _Pass:
    """One forward pass."""

    def __init__(self, net: nn.Module, program: Program, batch: _Batch, *, lean: bool) -> None:
        self._program, self._batch, self._lean = program, batch, lean
        self._modules = {name: net.get_submodule(name) for name in program.targets}
        self._constants: Values = {name: _attribute(net, path) for name, path in program.constants.items()}
        self._restored = _Restored(module for each in self._modules.values() for module in each.modules())
        self._tables: dict[str, list[Tables]] = {}
        self._graph = torch.is_grad_enabled()

    def output(self) -> Tensor:
        """The net's output for the batch."""
        start = 0
        kept: _Columns = {}
        for cut, keeps in enumerate(self._keeps(), 1):
            alive = self._program.alive(cut)
            found: _Columns = {name: column for name, column in kept.items() if name in alive}
            for norm, read in self._to_cut(start, kept, cut, found if keeps else None).items():
                self._normalise(norm, read)
            if keeps:
                start, kept = cut, found
                self._tables = {norm: tables for norm, tables in self._tables.items() if waits(norm) in kept}
        last = self._program.part(start, self._program.cuts)
        outputs = [values[self._program.output] for values in self._computed(last, kept)]
        return self._batch.joined(outputs)

    def _keeps(self) -> list[bool]:
        """The plan of the program, which needs to know how large values are: as for one example of each task."""
        program, images = self._program, self._batch.first()
        key = images.shape[1:], self._lean
        if (plan := program.plans.get(key)) is not None:
            return plan
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            part = program.part(0, program.cuts)
            values = run(part, {INPUT: images} | self._constants, dict.fromkeys(program.norms), self._modules)
        sizes = {name: value.numel() if isinstance(value, Tensor) else 0 for name, value in values.items()}
        return program.plans.setdefault(key, program.keeps(sizes, lean=self._lean))

    def _to_cut(self, start: int, kept: _Columns, cut: int, found: _Columns | None) -> dict[str, _Read]:
        """Bring all chunks to a cut: what its norms read there.

        Args:
            start: the cut where the chunks are.
            kept: what is alive there.
            cut: where they go.
            found: gets what is alive at this cut; None if it is not kept.
        """
        norms = self._program.norms_at(cut)
        part = self._program.part(start, cut, moments=found is None)
        whole = self._graph and found is not None
        last = partial(_read_of, norms) if found is None else None
        rows: dict[str, tuple[Block, Block]] = {}
        likes: dict[str, Tensor] = {}
        for chunk, values in enumerate(self._computed(part, kept, last)):
            if found is not None:
                likes |= {norm: _like(values[waits(norm)]) for norm in norms}
                for name, value in values.items():
                    if chunk == 0:
                        found[name] = self._column(value)
                    found[name].add(value)
            if whole:
                continue
            for norm, (mean, var, like) in (values if found is None else _read_of(norms, values)).items():
                if chunk == 0:
                    likes[norm] = like
                    rows[norm] = Block(mean, len(self._batch.x)), Block(var, len(self._batch.x))
                for block, table in zip(rows[norm], (mean, var), strict=True):
                    block.add(table)
        if not whole:
            return {norm: _Read(Moments(*(block.whole() for block in rows[norm])), likes[norm]) for norm in norms}
        assert found is not None
        return {norm: _Read(found[waits(norm)].moments(), likes[norm]) for norm in norms}

    def _column(self, value: Any) -> Any:
        """Where the values of all chunks are kept that are like the first one's."""
        rows = self._batch.tasks * self._batch.sizes[0]
        if self._graph and isinstance(value, Tensor) and value.ndim > 0 and len(value) == rows:
            return Block(value, len(self._batch.x))
        return Column()

    def _computed(self, part: Part, kept: _Columns, last: Callable[[Values], Values] | None = None) -> Iterator[Values]:
        """For each chunk, what `last` makes of what a part gives; all between is forgotten, and computed again."""
        # Nothing in here may hold this pass: its tables hold the graph, which holds what computes it again.
        batch, modules, restored = self._batch, self._modules, self._restored

        def compute(chunk: int, device: Tensor, needed: Values, tables: dict[str, Tables]) -> Values:
            images = {INPUT: batch.images(chunk)} if INPUT in part.needs else {}
            made = run(part, needed | images, tables, modules)
            made = {name: made[name] for name in part.gives}
            return made if last is None else last(made)

        device = batch.x.images if isinstance(batch.x, InParts) else batch.x
        for chunk in range(len(batch.sizes)):
            needed = {name: kept[name][chunk] for name in part.needs if name != INPUT} | self._constants
            tables = {norm: self._tables[norm][chunk] for norm in part.norms}
            if self._graph:
                contexts = partial(_contexts, restored)
                yield checkpoint(compute, chunk, device, needed, tables, use_reentrant=False, context_fn=contexts)
            else:
                yield compute(chunk, device, needed, tables)

    def _normalise(self, norm: str, read: _Read) -> None:
        """The norm's arithmetic on the instance moments of all chunks; its tables are there for what follows."""
        module, batch = self._modules[self._program.norms[norm]], self._batch
        assert isinstance(module, Norm)
        moments = Moments(*map(batch.in_order, read.moments))
        tables = module.tables(read.like.expand(len(batch.x), *read.like.shape), lambda a: (a, moments))
        self._tables[norm] = [Tables(*each) for each in zip(*map(batch.divided, tables), strict=True)]


def _read_of(norms: list[str], values: Values) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """What norms read of a chunk's activations: means, variances, and a tensor like one example's activations."""
    found = {}
    for norm in norms:
        a = values[waits(norm)]
        _, (mean, var) = instance_moments(a.unsqueeze(-1) if a.ndim == 2 else a)
        found[norm] = mean, var, _like(a)
    return found


def _like(a: Tensor) -> Tensor:
    return a.detach().new_empty(()).expand(a.shape[1:])


def _contexts(restored: _Restored) -> tuple[AbstractContextManager[None], _Restored]:
    """For torch's `checkpoint`: the contexts of the first computation, and of those that follow."""
    return nullcontext(), restored


def _attribute(net: nn.Module, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    return getattr(net.get_submodule(parent), name)


class _Restored:
    """A context in which modules have the weights and buffers that they had when it was made, as of `functional_call`.

    It may be entered as often as one likes: each backward pass through a graph enters it.
    """

    def __init__(self, modules: Iterable[nn.Module]) -> None:
        self._first = [
            (module, {"_parameters": dict(module._parameters), "_buffers": dict(module._buffers)})
            for module in modules
            if module._parameters or module._buffers
        ]
        self._now: list[list[dict[str, Any]]] = []

    def __enter__(self) -> None:
        self._now.append([{name: module.__dict__[name] for name in state} for module, state in self._first])
        for module, state in self._first:
            module.__dict__.update(state)

    def __exit__(self, *error: object) -> None:
        for (module, _), state in zip(self._first, self._now.pop(), strict=True):
            module.__dict__.update(state)

"""The activations of one forward pass, and every moment that a norm may take from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from tasknorm.kernels import instance_moments
from tasknorm.moments import Moments, batch_moments, group_moments, layer_moments, unbiased
from tasknorm.phase import Phase, PhaseError


class Batch(NamedTuple):
    """One set of each task in the pass: its batch moments, `(..., 1, C)`, and how many numbers they average."""

    moments: Moments
    total: Tensor | int


class Remembered(NamedTuple):
    """What a norm keeps of a context: moments that broadcast to `(1, C)`, and the context's size."""

    moments: Moments
    size: Tensor


Read = Callable[[Tensor], tuple[Tensor, Moments]]  # as `instance_moments`


class Activations:
    """The activations of one forward pass: each moment is computed when a norm first asks for it.

    Tables are `(N, C)`, or `(tasks, N / tasks, C)` in a joint pass of several tasks.

    Args:
        a: activations, `(N, C, *space)`.
        phase: what the batch carries; None outside of any phase.
        remembered: what the norm has kept of a context, for the target phase.
        correct: whether variances are unbiased.
        norm: the norm's label, for messages.
        read: takes the instance moments of the activations; another function than `instance_moments` where `a` stands
            for activations that are never all there.
    """

    def __init__(
        self,
        a: Tensor,
        phase: Phase | None,
        remembered: Remembered | None,
        *,
        correct: bool,
        norm: str,
        read: Read = instance_moments,
    ) -> None:
        self.a = a
        self.phase = phase
        self.norm = norm
        self._remembered = remembered
        self._correct = correct
        self._read = read
        self._biased: Moments | None = None
        self._first_batch: Batch | None = None
        self._context_rows: Tensor | None = None
        self._pixels = a.numel() // (a.shape[0] * a.shape[1])
        self._tasks = 1 if phase is None else phase.tasks
        self.dtype = torch.float64 if a.dtype == torch.float64 else torch.float32
        if phase is not None:
            self._check_tasks(phase)

    @property
    def instance(self) -> Moments:
        """Moments of each example's channel: IN, section 3.3."""
        return self._corrected(self._instance(), self._pixels)

    @property
    def layer(self) -> Moments:
        """Moments of each example over its channels: LN, section 3.3."""
        return self._corrected(layer_moments(self._instance()), self._pixels * self.a.shape[1])

    def group(self, num_groups: int) -> Moments:
        """Moments of each example over groups of channels: GN, appendix A.2."""
        moments = group_moments(self._instance(), num_groups)
        return self._corrected(moments, self._pixels * self.a.shape[1] // num_groups)

    @property
    def own(self) -> Moments:
        """Batch moments of the set, context or target, that each example is of: section 2.2."""
        return self.by_set(*(self.normalising(batch) for batch in self.batches))

    @property
    def context(self) -> Moments:
        """Batch moments of the context of each example's task: section 4.1."""
        phase = self._phase_needed()
        if phase.kind == "target":
            mean, var = self._memory().moments
            return Moments(mean.to(self.dtype), var.to(self.dtype))
        return self.normalising(self.first_batch)

    @property
    def size(self) -> Tensor | float:
        """The size of the context set, |D|: a tensor wherever a number would make a compiled model compile again."""
        phase = self._phase_needed()
        if phase.kind == "context":
            return self._rows()
        if phase.kind == "target":
            return self._memory().size.to(self.dtype)
        return self._joint_size(phase)

    @property
    def is_target(self) -> Tensor | float:
        """1 for targets and 0 for context examples: `(N, 1)` in a joint pass, else one number for all."""
        phase = self._phase_needed()
        if phase.kind == "joint":
            return 1 - self._is_context(phase).to(self.dtype)
        return 1.0 if phase.kind == "target" else 0.0

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The sets in the pass, with biased moments: context, then target, of a joint pass, else the one there is."""
        if self.phase is None or self.phase.kind != "joint":
            return (self.first_batch,)
        if not torch.compiler.is_compiling():
            return self.first_batch, self._batch_of(slice(self.phase.context_size, None))
        size = self._rows() - self._joint_size(self.phase)
        return self.first_batch, self._batch(size, ~self._is_context(self.phase))

    @property
    def first_batch(self) -> Batch:
        """The first of the sets in the pass: the context of a joint pass, else the one that there is."""
        if self._first_batch is None:
            if self.phase is None or self.phase.kind != "joint":
                self._first_batch = self._batch_of(slice(None))
            elif not torch.compiler.is_compiling():
                self._first_batch = self._batch_of(slice(self.phase.context_size))
            else:
                self._first_batch = self._batch(self._joint_size(self.phase), self._is_context(self.phase))
        return self._first_batch

    def normalising(self, batch: Batch) -> Moments:
        """The moments of a set as a norm uses them: biased, or not where that was asked for."""
        return self._corrected(batch.moments, batch.total)

    def by_set(self, first: Moments, second: Moments | None = None) -> Moments:
        """One table of moments from those of each set: in a joint pass, context and target rows take their own."""
        if second is None or self.phase is None:
            return first
        is_context = self._is_context(self.phase)
        return Moments(*(torch.where(is_context, *tables) for tables in zip(first, second, strict=True)))

    def table(self, values: Tensor) -> Tensor:
        """Values of one of these tables as `(N, C)`, or smaller where it broadcasts."""
        if values.ndim < 3:
            return values
        values = values.expand(self._tasks, self._rows(), values.shape[-1])
        return values.flatten(0, 1)

    def _instance(self) -> Moments:
        if self._biased is None:
            self.a, self._biased = self._read(self.a)
            if self._tasks > 1:
                self._biased = Moments(*(self._by_task(table) for table in self._biased))
        return self._biased

    def _by_task(self, table: Tensor) -> Tensor:
        """A table `(N, C)` as `(tasks, N / tasks, C)`."""
        return table.view(self._tasks, -1, table.shape[-1])

    def _batch_of(self, rows: slice) -> Batch:
        instance = self._instance()
        if rows != slice(None):
            instance = Moments(*(table[..., rows, :] for table in instance))
        return Batch(batch_moments(instance), instance.mean.shape[-2] * self._pixels)

    def _batch(self, size: Tensor | int, members: Tensor) -> Batch:
        """As `_batch_of`, without numbers that would make a compiled model compile again for every size."""
        return Batch(batch_moments(self._instance(), members, size), size * self._pixels)

    def _rows(self) -> int:
        return self.a.shape[0] // self._tasks

    def _joint_size(self, phase: Phase) -> Tensor | int:
        if torch.compiler.is_compiling():
            assert phase.size is not None
            return phase.size.to(self.a.device, self.dtype)
        return phase.context_size

    def _is_context(self, phase: Phase) -> Tensor:
        if self._context_rows is None:
            rows = torch.arange(self._rows(), device=self.a.device).unsqueeze(-1)
            self._context_rows = rows < self._joint_size(phase)
        return self._context_rows

    def _corrected(self, moments: Moments, count: Tensor | int) -> Moments:
        return unbiased(moments, count) if self._correct else moments

    def _phase_needed(self) -> Phase:
        if self.phase is None:
            raise PhaseError(
                f"{self.norm} normalises with its task's context, and this forward pass is in no phase; wrap it in "
                "tasknorm.context(model), tasknorm.target(model) or tasknorm.joint(model, context_size=...)"
            )
        return self.phase

    def _memory(self) -> Remembered:
        if self._remembered is None:
            raise PhaseError(
                f"{self.norm} was given targets before any context; first pass the context set in a "
                "`with tasknorm.context(model):` block, or load a state_dict that was saved after one"
            )
        return self._remembered

    def _check_tasks(self, phase: Phase) -> None:
        batch, tasks = self.a.shape[0], phase.tasks
        if batch % tasks:
            raise ValueError(
                f"a pass holds tasks of equal size, but a batch of {batch} does not divide by tasks={tasks}; in a "
                "joint pass give tasks * (context + target) examples, in one of contexts tasks * context"
            )
        if phase.kind != "joint":
            return
        # The number would make a compiled model compile again for every size.
        if not torch.compiler.is_compiling() and not 0 < phase.context_size < batch // tasks:
            raise ValueError(
                f"each task of a joint pass needs a context and a target: context_size must be from 1 to "
                f"{batch // tasks - 1} for {batch // tasks} examples a task, got {phase.context_size}"
            )

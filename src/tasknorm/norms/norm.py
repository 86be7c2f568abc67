"""What all norms share: equation 2 of the paper, their parameters, and what they remember of a context."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, NoReturn

import torch
from torch import Tensor, nn

from tasknorm.kernels import (
    at_least_float,
    can_standardise,
    instance_moments,
    is_traced,
    scale_shift,
    snapshot,
    standardised,
)
from tasknorm.moments import Moments, unbiased
from tasknorm.norms.activations import Activations, Batch, Read, Remembered
from tasknorm.norms.refusals import (
    check_caller,
    check_class,
    check_input,
    check_may_store,
    check_may_track,
    check_not_stale,
    refuse_script,
    versions,
)
from tasknorm.norms.running import RUNNING
from tasknorm.phase import Phase

Affine = bool | Literal["offset"]
Running = Literal["moving", "fixed"]
CONTEXT = ("context_mean", "context_var", "context_size")


class Tables(NamedTuple):
    """What a norm does to activations, `(a - mean) scale + shift`: tables that broadcast to `(N, C)`."""

    mean: Tensor
    scale: Tensor
    shift: Tensor


class Norm(nn.Module):
    """A normalization layer: `gamma (a - mu) / sqrt(sigma^2 + eps) + beta` (section 2.2).

    A subclass says which moments mu and sigma^2 are, in `moments`, and states its label, whether it is transductive,
    and whether it needs a context. All norms hold the same buffers, whether they use them or not, so that a state
    dict or a conversion carries running moments through every norm; the state dict of a batch norm loads into any.
    Moments are computed, and those of a context kept, in float32 or better, whatever the model's dtype.

    `torch.optim.swa_utils.update_bn` looks for torch's own batch norms and silently passes these by: average running
    moments anew with `tasknorm.norms.averaged_running`.

    Args:
        num_features: channels C of the input, which is `(N, C, *space)` with any number of axes of space.
        eps: added to the variance.
        momentum: how far each update moves the running moments; None averages all that came.
        affine: learn gamma and beta (True), beta alone (`"offset"`), or neither (False).
        unbiased: divide variances by count - 1. Differs from the paper, whose variances are biased, and agrees with
            its authors' released layer.
        running: `"moving"` updates the running moments at meta-train; `"fixed"` leaves them as they are, as those of a
            pretrained network.
    """

    label: ClassVar[str]
    transductive: ClassVar[bool]
    needs_context: ClassVar[bool]
    tracks: ClassVar[bool] = True  # whether running moments may move at meta-train
    by_running: ClassVar[bool] = False  # whether running moments alone normalise at meta-test

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    context_mean: Tensor
    context_var: Tensor
    context_size: Tensor

    phase: Phase | None = None
    twice = False  # whether second-order MAML will differentiate its passes twice
    restored = False  # whether recomputation has put back what the norm was at its first computation

    def __init__(
        self,
        num_features: int,
        *,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: Affine = True,
        unbiased: bool = False,
        running: Running = "moving",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_class(type(self))
        if isinstance(num_features, bool) or not isinstance(num_features, int) or num_features < 1:
            raise ValueError(f"num_features must be a positive integer, got {num_features!r}")
        if affine not in (True, False, "offset"):
            raise ValueError(f'affine must be True, False or "offset", got {affine!r}')
        if running not in ("moving", "fixed"):
            raise ValueError(f'running must be "moving" or "fixed", got {running!r}')
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.unbiased = unbiased
        self.fixed = running == "fixed"
        zeros = torch.zeros(num_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(torch.ones_like(zeros)) if affine is True else None
        self.bias = nn.Parameter(torch.zeros_like(zeros)) if affine else None
        self.register_buffer("running_mean", zeros.clone())
        self.register_buffer("running_var", torch.ones_like(zeros))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))
        self.register_buffer("context_mean", at_least_float(zeros).clone())
        self.register_buffer("context_var", torch.ones_like(self.context_mean))
        self.register_buffer("context_size", torch.zeros((), dtype=torch.long, device=device))
        self._live: Remembered | None = None
        self._before: Remembered | None = None
        self._weights: list[tuple[Tensor, int]] = []
        self._has_context = False

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments that make a norm like this one, for any number of channels."""
        said = {name: getattr(self, name) for name in ("eps", "momentum", "affine", "unbiased")}
        return said | ({"running": "fixed"} if self.fixed else {})

    def moments(self, a: Activations) -> Moments:
        """The mean and variance that normalise these activations, as tables that broadcast to one per example."""
        raise NotImplementedError(f"{type(self).__name__} must say which moments it normalises with")

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x`, `(N, C, *space)`, in the current phase."""
        check_caller(self, x)
        check_input(self, x)
        return self.normalised(x)

    def normalised(self, x: Tensor) -> Tensor:
        """`x`, which has been checked, as equation 2 makes it."""
        a, tables = self._tables(x, instance_moments)
        normalised = scale_shift(a.a, *tables)
        return normalised.squeeze(-1) if x.ndim == 2 else normalised

    def tables(self, x: Tensor, read: Read) -> Tables:
        """What equation 2 does to activations that are never all there: their chunks are normalised one by one.

        It is a pass like any other: running moments move, and a context is remembered.

        Args:
            x: stands for the activations: has their shape, dtype and device, and any values.
            read: gives their instance moments (see `Activations`).
        """
        check_caller(self, x)
        check_input(self, x)
        return self._tables(x, read)[1]

    def _tables(self, x: Tensor, read: Read) -> tuple[Activations, Tables]:
        phase = self.phase
        storing = phase if self.needs_context and phase is not None and phase.stores else None
        if storing is not None:
            check_may_store(self, storing, x)
            if not is_traced() and not storing.weights:
                storing.weights.extend(versions(storing.model))
        a = Activations(
            x.unsqueeze(-1) if x.ndim == 2 else x,
            phase,
            self._remembered(),
            correct=self.unbiased,
            norm=self.label,
            read=read,
        )
        moments = self.moments(a)
        if storing is not None:
            size = torch.full((), x.shape[0], dtype=torch.long, device=x.device)
            self._live = Remembered(self.to_remember(a, moments), size)
        mean, var = (a.table(table) for table in moments)
        scale = torch.rsqrt(var + self.eps)
        if self.weight is not None:
            scale = scale * self.weight.to(scale.dtype)
        shift = scale.new_zeros(1) if self.bias is None else self.bias.to(scale.dtype)
        return a, Tables(mean, scale, shift)

    def by_own_sets(self, x: Tensor) -> tuple[Tensor, Batch] | None:
        """`x` with each set in it, `(sets n, C, h, w)`, normalised with its own moments, and the moments.

        Faster than the same by `moments`, with two derivatives in closed form; equal but for rounding. None where that
        is not to be had: in a joint pass, with unbiased variances or a learned gamma, and for what `can_standardise`
        refuses.
        """
        sets = 1 if self.phase is None else self.phase.tasks
        one_of_each = self.phase is None or self.phase.kind != "joint"
        if not one_of_each or self.unbiased or self.weight is not None or not can_standardise(x, sets):
            return None
        y, moments = standardised(x, self.bias, sets, self.eps)
        return y, Batch(moments, x.numel() // (sets * x.shape[1]))

    def to_remember(self, a: Activations, moments: Moments) -> Moments:
        """What the target phase will need of this context; `moments` are those that normalised it."""
        return a.context

    def preserve(self) -> bool:
        """Start as near as this norm can to what its running moments computed, those of a pretrained network.

        Returns:
            Whether it computes nearly the same at meta-test; if not, the network must be trained before it is of use.
        """
        return self.by_running

    @property
    def running(self) -> Moments:
        """The running moments, detached, in float32 or better."""
        return Moments(at_least_float(self.running_mean.detach()), at_least_float(self.running_var.detach()))

    @property
    def running_before(self) -> Moments:
        """The running moments as they are now, whatever `track` will do to them in this pass."""
        if not self.training:
            return self.running
        return Moments(at_least_float(snapshot(self.running_mean)), at_least_float(snapshot(self.running_var)))

    @property
    def looks_beyond_the_example(self) -> bool:
        """Whether what the norm does to an example depends on others, or moves its running moments."""
        return self.needs_context or self.transductive or (self.tracks and self.training)

    @property
    def has_running(self) -> bool:
        """Whether there are running moments: a training has moved them, or they were loaded."""
        mean, var = self.running
        return bool((self.num_batches_tracked > 0) | (mean != 0).any() | (var != 1).any())

    @property
    def has_stored(self) -> bool:
        """Whether a context has passed in this phase, which is one that stores."""
        return self._live is not None

    @torch.no_grad()
    def track(self, batch: Batch) -> Moments:
        """Move the running moments towards those of one set, averaged over its tasks.

        As in torch, the running variance takes the unbiased estimate, and a momentum of None gives the plain average.
        Fixed ones do not move; the update is counted all the same, for BRN's schedule.

        Returns:
            The running moments as each task's own set would have moved them, `(..., 1, C)`; fixed ones as they are.
        """
        check_may_track(self, batch.moments.mean)
        self.num_batches_tracked.add_(1)
        running = self.running
        if self.fixed:
            return running
        step = 1 / self.num_batches_tracked.to(running.mean.dtype) if self.momentum is None else self.momentum
        new = unbiased(batch.moments, batch.total)
        moved = Moments(*(old * (1 - step) + own * step for old, own in zip(running, new, strict=True)))
        for buffer, table in zip((self.running_mean, self.running_var), moved, strict=True):
            buffer.copy_(table.reshape(-1, self.num_features).mean(0))
        return moved

    def enter(self, phase: Phase) -> None:
        """Begin a phase (see `tasknorm.context`)."""
        if phase.kind == "target" and not is_traced():
            if self._live is not None:
                check_not_stale(self, self._live.moments.mean, self._weights)
            self._look_for_context()
        if phase.stores:
            self._before, self._live = self._live, None
        self.phase = phase

    def leave(self, succeeded: bool) -> None:
        """End the phase: save the context's moments in the buffers, or restore what was there before an error."""
        phase, self.phase = self.phase, None
        if phase is None or not phase.stores:
            return
        if succeeded and self._live is not None:
            with torch.no_grad():
                self.context_mean.copy_(self._live.moments.mean.reshape(-1))
                self.context_var.copy_(self._live.moments.var.reshape(-1))
                self.context_size.copy_(self._live.size)
            self._weights = phase.weights
            if self._live.moments.mean.is_inference():
                self._live = None  # it could not be used outside of inference mode; the buffers can
        else:
            self._live = self._before
        self._before = None

    def extra_repr(self) -> str:
        affine = repr(self.affine) if isinstance(self.affine, str) else str(self.affine)
        return f"{self.num_features}, eps={self.eps}, affine={affine}" + "".join(
            text for text, said in ((", unbiased=True", self.unbiased), (", running='fixed'", self.fixed)) if said
        )

    def __getstate__(self) -> dict[str, Any]:
        """For copy and pickle: live moments hold a graph and a phase is a matter of the moment; buffers stay."""
        return self.__dict__ | {"phase": None, "_live": None, "_before": None, "_weights": []}

    def __prepare_scriptable__(self) -> NoReturn:
        """Torch's hook in `torch.jit.script`."""
        refuse_script(self)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._live = None  # of the old device or dtype; the buffers move
        before = self.context_mean, self.context_var
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Moved with the model, but never to a dtype in which a variance overflows.
        self.context_mean, self.context_var = (
            now if now.dtype == at_least_float(now).dtype else at_least_float(old).to(now.device)
            for old, now in zip(before, (self.context_mean, self.context_var), strict=True)
        )
        return self

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: list[str], *rest: Any
    ) -> None:
        self._live = None  # what is loaded is newer
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        own = {f"{prefix}{name}" for name in (*CONTEXT, "alpha_scale", "alpha_offset")}
        if not own & state_dict.keys():  # of torch's batch norm: it knows of no context and no alpha, and that is fine
            self.context_size.zero_()
            own |= {f"{prefix}{name}" for name in (RUNNING[-1:] if self.tracks else RUNNING)}
            missing[:] = [name for name in missing if name not in own]
        if self.phase is not None:
            self._look_for_context()

    def _look_for_context(self) -> None:
        self._has_context = self.context_size.item() > 0

    def _remembered(self) -> Remembered | None:
        if self.phase is None or self.phase.kind != "target":
            return None
        # An exported model keeps the buffers: live moments belong to a graph that does not outlive the session.
        if self._live is not None and not torch.compiler.is_exporting():
            return self._live
        if not self._has_context:
            return None
        # Copies, since a later context writes to the buffers, which a graph may still need.
        return Remembered(Moments(self.context_mean.clone(), self.context_var.clone()), self.context_size.clone())


__all__ = ["Activations", "Affine", "Batch", "Moments", "Norm", "Running", "Tables"]

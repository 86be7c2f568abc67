"""What all norms share: equation 2 of the paper, their parameters, and what they remember of a context."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tasknorm.kernels import is_traced, scale_shift, snapshot
from tasknorm.moments import Moments, unbiased
from tasknorm.norms.activations import Activations, Batch, Remembered
from tasknorm.phase import Phase

Affine = bool | Literal["offset"]


class Norm(nn.Module):
    """A normalization layer: `gamma (a - mu) / sqrt(sigma^2 + eps) + beta` (section 2.2).

    A subclass says which moments mu and sigma^2 are, in `moments`, and states its label, whether it is transductive,
    and whether it needs a context. All norms hold the same buffers, whether they use them or not, so that a state
    dict or a conversion carries running moments through every norm.

    Args:
        num_features: channels C of the input, which is `(N, C, *space)` with any number of axes of space.
        eps: added to the variance.
        momentum: how far each update moves the running moments; None averages all that came.
        affine: learn gamma and beta (True), beta alone (`"offset"`), or neither (False).
        unbiased: divide variances by count - 1. Differs from the paper, whose variances are biased, and agrees with
            its authors' released layer.
    """

    label: ClassVar[str]
    transductive: ClassVar[bool]
    needs_context: ClassVar[bool]
    tracks: ClassVar[bool] = True  # whether running moments may move at meta-train

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor
    context_mean: Tensor
    context_var: Tensor
    context_size: Tensor

    phase: Phase | None = None

    def __init__(
        self,
        num_features: int,
        *,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: Affine = True,
        unbiased: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if isinstance(num_features, bool) or not isinstance(num_features, int) or num_features < 1:
            raise ValueError(f"num_features must be a positive integer, got {num_features!r}")
        if affine not in (True, False, "offset"):
            raise ValueError(f'affine must be True, False or "offset", got {affine!r}')
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.unbiased = unbiased
        zeros = torch.zeros(num_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(torch.ones_like(zeros)) if affine is True else None
        self.bias = nn.Parameter(torch.zeros_like(zeros)) if affine else None
        self.register_buffer("running_mean", zeros.clone())
        self.register_buffer("running_var", torch.ones_like(zeros))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))
        self.register_buffer("context_mean", zeros.clone())
        self.register_buffer("context_var", torch.ones_like(zeros))
        self.register_buffer("context_size", torch.zeros((), dtype=torch.long, device=device))
        self._live: Remembered | None = None
        self._before: Remembered | None = None
        self._has_context = False

    def moments(self, a: Activations) -> Moments:
        """The mean and variance that normalise these activations, as tables that broadcast to one per example."""
        raise NotImplementedError(f"{type(self).__name__} must say which moments it normalises with")

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x`, `(N, C, *space)`, in the current phase."""
        self._check(x)
        a = Activations(
            x.unsqueeze(-1) if x.ndim == 2 else x,
            self.phase,
            self._remembered(),
            correct=self.unbiased,
            norm=self.label,
        )
        moments = self.moments(a)
        if self.needs_context and self.phase is not None and self.phase.stores:
            size = torch.full((), x.shape[0], dtype=torch.long, device=x.device)
            self._live = Remembered(self.to_remember(a, moments), size)
        mean, var = (a.table(table) for table in moments)
        scale = torch.rsqrt(var + self.eps)
        if self.weight is not None:
            scale = scale * self.weight.to(scale.dtype)
        shift = scale.new_zeros(1) if self.bias is None else self.bias.to(scale.dtype)
        return scale_shift(a.a, mean, scale, shift).view_as(x)

    def to_remember(self, a: Activations, moments: Moments) -> Moments:
        """What the target phase will need of this context; `moments` are those that normalised it."""
        return a.context

    @property
    def running(self) -> Moments:
        """The running moments, detached."""
        return Moments(self.running_mean.detach(), self.running_var.detach())

    @property
    def running_before(self) -> Moments:
        """The running moments as they are now, whatever `track` will do to them in this pass."""
        return Moments(snapshot(self.running_mean), snapshot(self.running_var)) if self.training else self.running

    @torch.no_grad()
    def track(self, batch: Batch) -> Moments:
        """Move the running moments towards those of one set, averaged over its tasks.

        As in torch, the running variance takes the unbiased estimate, and a momentum of None gives the plain average.

        Returns:
            The running moments as each task's own set would have moved them, `(..., 1, C)`.
        """
        self.num_batches_tracked.add_(1)
        running = self.running_mean, self.running_var
        step = 1 / self.num_batches_tracked.to(running[0].dtype) if self.momentum is None else self.momentum
        moved = [
            old + (new - old) * step for old, new in zip(running, unbiased(batch.moments, batch.total), strict=True)
        ]
        for old, new in zip(running, moved, strict=True):
            old.copy_(new.reshape(-1, self.num_features).mean(0))
        return Moments(*moved)

    def enter(self, phase: Phase) -> None:
        """Begin a phase (see `tasknorm.context`)."""
        if phase.kind == "target" and not is_traced():
            self._has_context = self.context_size.item() > 0
        self._before = self._live
        self.phase = phase

    def leave(self, succeeded: bool) -> None:
        """End the phase: save the context's moments in the buffers, or restore what was there before an error."""
        self.phase = None
        if not succeeded:
            self._live = self._before
        elif self._live is not None and self._live is not self._before:
            with torch.no_grad():
                self.context_mean.copy_(self._live.moments.mean.reshape(-1))
                self.context_var.copy_(self._live.moments.var.reshape(-1))
                self.context_size.copy_(self._live.size)
            if self._live.moments.mean.is_inference():
                self._live = None  # it could not be used outside of inference mode; the buffers can
        self._before = None

    def extra_repr(self) -> str:
        affine = repr(self.affine) if isinstance(self.affine, str) else str(self.affine)
        return f"{self.num_features}, eps={self.eps}, affine={affine}" + (", unbiased=True" if self.unbiased else "")

    def __getstate__(self) -> dict[str, Any]:
        """For copy and pickle: live moments hold a graph and a phase is a matter of the moment; buffers stay."""
        return self.__dict__ | {"phase": None, "_live": None, "_before": None}

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._live = None  # of the old device or dtype; the buffers move
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, metadata: Any, strict: bool, missing: list[str], *rest: Any
    ) -> None:
        self._live = None  # what is loaded is newer
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *rest)
        names = {f"{prefix}{name}" for name in ("context_mean", "context_var", "context_size")}
        if not names & state_dict.keys():  # of torch's batch norm, say: it knows of no context, and that is fine
            self.context_size.zero_()
            missing[:] = [name for name in missing if name not in names]

    def _remembered(self) -> Remembered | None:
        # An exported model keeps the buffers: live moments belong to a graph that does not outlive the session.
        if self._live is not None and not torch.compiler.is_exporting():
            return self._live
        if self.phase is None or not self._has_context:
            return None
        # Copies, since a later context writes to the buffers, which a graph may still need.
        return Remembered(Moments(self.context_mean.clone(), self.context_var.clone()), self.context_size.clone())

    def _check(self, x: Tensor) -> None:
        if not x.is_floating_point():
            raise TypeError(
                f"{self.label} normalises floating-point activations, got {x.dtype}; convert them first: x.float()"
            )
        if x.ndim < 2 or x.shape[1] != self.num_features:
            raise ValueError(
                f"{self.label} was made for {self.num_features} channels and expects (examples, {self.num_features}, "
                f"*space), got a tensor of shape {tuple(x.shape)}"
            )
        if x.numel() == 0:
            what = "batch" if self.phase is None or self.phase.kind == "joint" else f"{self.phase.kind} set"
            raise ValueError(
                f"{self.label} needs at least one example in the {what}, got a tensor of shape {tuple(x.shape)}"
            )


__all__ = ["Activations", "Affine", "Batch", "Moments", "Norm"]

"""TaskNorm: section 4.2, equations 10 and 11; the forms of alpha in appendix E."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from tasknorm.kernels import at_least_float, is_traced
from tasknorm.moments import pooled_moments
from tasknorm.norms.norm import Activations, Moments, Norm
from tasknorm.phase import Phase

Alpha = Literal["functional-shared", "functional-channel", "independent-shared", "independent-channel"]
ALPHAS: tuple[Alpha, ...] = get_args(Alpha)
SLIGHT = 0.02  # the share of what a pretrained network was not trained with, where alpha starts by `preserve`


class TaskNorm(Norm):
    """What TaskNorm-I, TaskNorm-L and TaskNorm-r share: a learned alpha that pools the context's moments with others.

        alpha   = sigmoid(SCALE |D| + OFFSET)
        mu      = alpha mu_BN + (1 - alpha) mu_+
        sigma^2 = alpha (sigma_BN^2 + (mu_BN - mu)^2) + (1 - alpha) (sigma_+^2 + (mu_+ - mu)^2)

    Args:
        num_features: channels C.
        alpha: `functional-shared` learns SCALE and OFFSET for the layer, `functional-channel` for each channel;
            `independent-shared` and `independent-channel` learn OFFSET alone, for contexts of one size. All start at 0.
        **options: as for `Norm`.
    """

    needs_context = True
    transductive = False

    alpha_scale: nn.Parameter | None
    alpha_offset: nn.Parameter

    def __init__(self, num_features: int, *, alpha: Alpha = "functional-shared", **options: Any) -> None:
        super().__init__(num_features, **options)
        if alpha not in ALPHAS:
            raise ValueError(f"alpha must be one of {', '.join(ALPHAS)}, got {alpha!r}")
        self.alpha_form = alpha
        like = {key: options[key] for key in ("device", "dtype") if key in options}
        zeros = torch.zeros((num_features,) if alpha.endswith("channel") else (), **like)
        self.alpha_scale = nn.Parameter(zeros.clone()) if alpha.startswith("functional") else None
        self.alpha_offset = nn.Parameter(zeros)

    @property
    def options(self) -> dict[str, Any]:
        return super().options | {"alpha": self.alpha_form}

    def alpha(self, size: Tensor | float) -> Tensor:
        """How much the context counts, from 0 to 1, if it has this size: `()`, or `(C,)` for the channel forms.

        In float32 or better, so that a size which bfloat16 cannot tell from the next counts as what it is.
        """
        offset = at_least_float(self.alpha_offset)
        if self.alpha_scale is None:
            return torch.sigmoid(offset)
        return torch.sigmoid(at_least_float(self.alpha_scale) * size + offset)

    def preserve(self) -> bool:
        """Start almost at the context's moments, nearer to running moments than an example's own (see `Norm`)."""
        self.start_at(1 - SLIGHT)
        return False

    @torch.no_grad()
    def start_at(self, alpha: float) -> None:
        """Let alpha be this number for contexts of any size."""
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
        if self.alpha_scale is not None:
            self.alpha_scale.zero_()
        self.alpha_offset.fill_(math.log(alpha / (1 - alpha)))

    def secondary(self, a: Activations) -> Moments:
        """The moments mu_+ and sigma_+^2 that the context's are pooled with."""
        raise NotImplementedError(f"{type(self).__name__} must say which secondary moments it pools with")

    def moments(self, a: Activations) -> Moments:
        context = a.context
        return pooled_moments(context, self.secondary(a), self.alpha(a.size).to(context.mean.dtype))

    def enter(self, phase: Phase) -> None:
        if not is_traced():
            for name in ("alpha_scale", "alpha_offset"):
                value = getattr(self, name)
                if value is not None and not all(map(math.isfinite, value.reshape(-1).tolist())):
                    raise ValueError(
                        f"{self.label}'s {name} must be finite, got {value.detach().tolist()}; the training that made "
                        "it has diverged: go back to an earlier checkpoint or lower the learning rate"
                    )
        super().enter(phase)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, alpha={self.alpha_form!r}"


class TaskNormI(TaskNorm):
    """The context's moments pooled with the example's own instance moments.

    mean, variance: batch moments of the context set, pooled with the instance moments of the example being normalised
    (section 4.2).

    Context and target both see the context set and the example itself, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta, and SCALE and OFFSET of alpha.

    Reference: Bronskill et al., 2020, "TaskNorm: rethinking batch normalization for meta-learning".

    >>> TaskNormI(64).alpha(25)
    tensor(0.5000, grad_fn=<SigmoidBackward0>)
    """

    label = "TaskNorm-I"
    tracks = False

    def secondary(self, a: Activations) -> Moments:
        return a.instance


class TaskNormL(TaskNorm):
    """The context's moments pooled with the example's own layer moments.

    mean, variance: batch moments of the context set, pooled with the layer moments of the example being normalised
    (section 4.2).

    Context and target both see the context set and the example itself, at meta-train and at meta-test alike.

    **Transductive: no.**

    Learned: gamma, beta, and SCALE and OFFSET of alpha.

    Reference: as TaskNorm-I.
    """

    label = "TaskNorm-L"
    tracks = False

    def secondary(self, a: Activations) -> Moments:
        return a.layer


class TaskNormR(TaskNorm):
    """The context's moments pooled with running moments.

    mean, variance: batch moments of the context set, pooled with the running averages of such moments in meta-training
    (section 5.2).

    Context and target both see the context set and the running moments, at meta-train and at meta-test alike. The
    running moments are read without gradient, as they were before the context passed, and at meta-train updated from
    the context alone.

    After averaging weights, average the running moments anew with `tasknorm.norms.averaged_running`; torch's
    `update_bn` passes this norm by.

    **Transductive: no.**

    Learned: gamma, beta, and SCALE and OFFSET of alpha.

    Reference: as TaskNorm-I.

    Args:
        num_features: channels C.
        **options: as for `TaskNorm`.
    """

    label = "TaskNorm-r"

    def secondary(self, a: Activations) -> Moments:
        return Moments(*(table.to(a.dtype) for table in self.running_before))

    def moments(self, a: Activations) -> Moments:
        if a.phase is not None and a.phase.kind == "target":
            return a.context  # pooled already, with the running moments that its context saw
        pooled = super().moments(a)
        if self.training:
            self.track(a.first_batch)
        return pooled

    def to_remember(self, a: Activations, moments: Moments) -> Moments:
        return moments

    def preserve(self) -> bool:
        """Start almost at the running moments (see `Norm`)."""
        self.start_at(SLIGHT)
        return True

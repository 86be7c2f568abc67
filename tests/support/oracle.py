"""A slow float64 reference of the twelve normalization schemes, written from the TaskNorm paper's equations.

It shares no code with the library. Every moment is a plain sum over the numbers it averages, taken one task,
one example and one channel at a time, so autograd's gradients through it are a reference too.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Moments = tuple[Tensor, Tensor]  # mean and variance, (C,) each


@dataclass(frozen=True)
class Settings:
    """A layer's parameters, buffers and options; `weight` and `bias` are the paper's gamma and beta."""

    weight: Tensor | None  # (C,), None = 1
    bias: Tensor | None  # (C,), None = 0
    running_mean: Tensor  # (C,)
    running_var: Tensor  # (C,)
    eps: float = 1e-5
    momentum: float = 0.1
    alpha_scale: Tensor | None = None  # () or (C,), None = alpha independent of the context size
    alpha_offset: Tensor | None = None  # () or (C,)
    num_groups: int = 1
    r_max: float = 1.0
    d_max: float = 0.0
    unbiased: bool = False


@dataclass(frozen=True)
class Output:
    """Normalised activations, one tensor per task, and the running moments after the pass."""

    context: list[Tensor]
    target: list[Tensor]
    running_mean: Tensor
    running_var: Tensor


def moments(values: Tensor, *, unbiased: bool) -> Moments:
    """Mean and variance (scalars) of all the numbers in `values`: the sums of sections 2.2 and 3.3."""
    count = values.numel()
    mean = values.sum() / count
    squares = ((values - mean) ** 2).sum()
    # A single number has no unbiased variance; the biased one is 0.
    return mean, squares / (count - 1 if unbiased and count > 1 else count)


def per_channel(scalars: list[Moments]) -> Moments:
    """Stack one pair of scalar moments per channel into (C,) moments."""
    return torch.stack([mean for mean, _ in scalars]), torch.stack([var for _, var in scalars])


def batch_moments(activations: Tensor, *, unbiased: bool) -> Moments:
    """mu_BN and sigma^2_BN of section 2.2: per channel, over the examples and space of a set."""
    channels = range(activations.shape[1])
    return per_channel([moments(activations[:, c], unbiased=unbiased) for c in channels])


def instance_moments(example: Tensor, *, unbiased: bool) -> Moments:
    """mu_IN and sigma^2_IN of section 3.3: per channel, over the space of one (C, *spatial) example."""
    return per_channel([moments(example[c], unbiased=unbiased) for c in range(example.shape[0])])


def layer_moments(example: Tensor, *, unbiased: bool) -> Moments:
    """mu_LN and sigma^2_LN of section 3.3: over the channels and space of one example."""
    return per_channel([moments(example, unbiased=unbiased)] * example.shape[0])


def group_moments(example: Tensor, num_groups: int, *, unbiased: bool) -> Moments:
    """GN of appendix A.2: over the channels and space of each contiguous group of channels of one example."""
    channels = example.shape[0]
    if channels % num_groups:
        raise ValueError(f"{channels} channels do not divide into {num_groups} groups")
    size = channels // num_groups
    starts = [(c // size) * size for c in range(channels)]
    return per_channel([moments(example[start : start + size], unbiased=unbiased) for start in starts])


def blending_factor(context_size: int, settings: Settings) -> Tensor:
    """alpha of section 4.2; without a scale, the independent form of its ablation study."""
    if settings.alpha_offset is None:
        raise ValueError("TaskNorm needs alpha_offset")
    if settings.alpha_scale is None:
        return torch.sigmoid(settings.alpha_offset)
    return torch.sigmoid(settings.alpha_scale * context_size + settings.alpha_offset)


def pooled_moments(context: Tensor, extra: Moments, settings: Settings) -> Moments:
    """mu_TN and sigma^2_TN of section 4.2: the context set's moments blended with the secondary moments."""
    alpha = blending_factor(len(context), settings)
    batch_mean, batch_var = batch_moments(context, unbiased=settings.unbiased)
    extra_mean, extra_var = extra
    mean = alpha * batch_mean + (1 - alpha) * extra_mean
    batch_term = alpha * (batch_var + (batch_mean - mean) ** 2)
    extra_term = (1 - alpha) * (extra_var + (extra_mean - mean) ** 2)
    return mean, batch_term + extra_term


def example_moments(
    label: str,
    example: Tensor,
    own: Tensor,
    context: Tensor,
    running: Moments,
    settings: Settings,
    *,
    training: bool,
    is_target: bool,
) -> Moments:
    """The moments that normalise one example of `own`, the context or the target set of one task."""
    unbiased = settings.unbiased
    match label:
        case "CBN" | "BRN":  # sections 2.2 and 3.1, appendix A.1
            return batch_moments(own, unbiased=unbiased) if training else running
        case "TBN":  # section 3.2
            return batch_moments(own, unbiased=unbiased)
        case "RN":  # section 4.2, last paragraph
            if is_target and not training:
                return batch_moments(torch.cat([context, example.unsqueeze(0)]), unbiased=unbiased)
            return batch_moments(own, unbiased=unbiased)
        case "MetaBN":  # section 4.1
            return batch_moments(context, unbiased=unbiased)
        case "TaskNorm-I":
            return pooled_moments(context, instance_moments(example, unbiased=unbiased), settings)
        case "TaskNorm-L":
            return pooled_moments(context, layer_moments(example, unbiased=unbiased), settings)
        case "TaskNorm-r":
            return pooled_moments(context, running, settings)
        case "IN":
            return instance_moments(example, unbiased=unbiased)
        case "LN":
            return layer_moments(example, unbiased=unbiased)
        case "GN":
            return group_moments(example, settings.num_groups, unbiased=unbiased)
        case "Baseline":
            return running
    raise ValueError(f"unknown label {label!r}")


def renorm_correction(batch: Moments, running: Moments, settings: Settings) -> tuple[Tensor, Tensor]:
    """r and d of appendix A.1, with sqrt(var + eps) for both sigmas, unlike the paper."""
    batch_sigma = torch.sqrt(batch[1] + settings.eps)
    running_sigma = torch.sqrt(running[1] + settings.eps)
    r = torch.clip(batch_sigma / running_sigma, 1 / settings.r_max, settings.r_max)
    d = torch.clip((batch[0] - running[0]) / running_sigma, -settings.d_max, settings.d_max)
    return r.detach(), d.detach()


def normalize_set(
    label: str,
    own: Tensor,
    context: Tensor,
    running: Moments,
    settings: Settings,
    *,
    training: bool,
    is_target: bool,
) -> Tensor:
    """The normalisation equation of section 2.2 (for BRN that of appendix A.1) on each example of one set."""
    channels = own.shape[1]
    ones, zeros = own.new_ones(channels), own.new_zeros(channels)
    gamma = ones if settings.weight is None else settings.weight
    beta = zeros if settings.bias is None else settings.bias
    normalised = []
    for example in own:
        mean, var = example_moments(
            label, example, own, context, running, settings, training=training, is_target=is_target
        )
        r, d = ones, zeros
        if label == "BRN" and training:
            r, d = renorm_correction((mean, var), running, settings)
        sigma = torch.sqrt(var + settings.eps)
        rows = []
        for c in range(channels):
            standard = (example[c] - mean[c]) / sigma[c]
            rows.append(gamma[c] * (r[c] * standard + d[c]) + beta[c])
        normalised.append(torch.stack(rows))
    return torch.stack(normalised)


def updated(running: Moments, sets: list[Tensor], momentum: float) -> Moments:
    """Section 2.2's running moments after one step towards the mean over tasks of the sets' batch moments.

    The variance is torch's unbiased form whatever `Settings.unbiased` says, which governs normalisation only.
    """
    batches = [batch_moments(activations.detach(), unbiased=True) for activations in sets]
    mean = torch.stack([mean for mean, _ in batches]).sum(0) / len(sets)
    var = torch.stack([var for _, var in batches]).sum(0) / len(sets)
    return (1 - momentum) * running[0] + momentum * mean, (1 - momentum) * running[1] + momentum * var


def check(tasks: list[tuple[Tensor, Tensor]], settings: Settings) -> None:
    """Refuse what the equations do not define, and lower precisions, which would make a poor reference."""
    sets = [activations for task in tasks for activations in task]
    if not sets or any(activations.numel() == 0 for activations in sets):
        raise ValueError("no tasks, or an empty set: its moments are undefined")
    tensors = sets + [value for value in vars(settings).values() if isinstance(value, Tensor)]
    if any(tensor.dtype != torch.float64 for tensor in tensors):
        raise TypeError("the oracle takes float64 tensors only")


def normalize(label: str, tasks: list[tuple[Tensor, Tensor]], settings: Settings, *, training: bool) -> Output:
    """Normalise each task's (context, target) activations; `training` is meta-train, else meta-test."""
    check(tasks, settings)
    contexts = [context for context, _ in tasks]
    before = settings.running_mean.detach(), settings.running_var.detach()

    context_out = [
        normalize_set(label, context, context, before, settings, training=training, is_target=False)
        for context, _ in tasks
    ]
    after_context = before
    if training and label in {"CBN", "BRN", "TaskNorm-r"}:
        after_context = updated(before, contexts, settings.momentum)

    target_out = []
    for context, target in tasks:
        # TaskNorm-r pools every set of a pass with the same moments; BRN's targets see the update of their own
        # task's context, so that a task's outputs do not depend on the others in the pass.
        seen = updated(before, [context], settings.momentum) if training and label == "BRN" else before
        target_out.append(normalize_set(label, target, context, seen, settings, training=training, is_target=True))
    after = after_context
    if training and label in {"CBN", "BRN"}:
        after = updated(after_context, [target for _, target in tasks], settings.momentum)
    return Output(context_out, target_out, *after)

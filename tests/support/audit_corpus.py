"""Predictors of known truth for the audit: honest ones and ones that peek at the other targets."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import tasknorm
from support.random_norm import CHANNELS, random_norm
from tasknorm import Episode

WAY, FEATURES = 5, 16
Scores = Any
Predictor = Callable[[Tensor, Tensor, Tensor], Scores]


def episode(targets: int = 75, features: int = FEATURES, seed: int = 0, at: float = 0.0, scale: float = 1.0) -> Episode:
    """Classes in a space of features, around a point and of a scale."""
    generator = torch.Generator().manual_seed(seed)
    centres = 0.8 * torch.randn(WAY, features, generator=generator)
    context_y, target_y = torch.arange(25) % WAY, torch.arange(targets) % WAY

    def examples(labels: Tensor) -> Tensor:
        return at + scale * (centres[labels] + torch.randn(len(labels), features, generator=generator))

    return Episode(examples(context_y), context_y, examples(target_y), target_y)


def means(context_x: Tensor, context_y: Tensor) -> Tensor:
    return torch.stack([context_x[context_y == label].flatten(1).mean(0) for label in range(WAY)])


def distances(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Scores of nearest class means, by torch's kernel."""
    return -torch.cdist(target_x.flatten(1), means(context_x, context_y))


def products(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Scores of nearest class means, by a matrix product."""
    centres = means(context_x, context_y)
    return target_x.flatten(1) @ centres.T - (centres**2).sum(1) / 2


def after(change: Callable[[Tensor], Scores], scores: Predictor = products) -> Callable[[], Predictor]:
    """A predictor whose scores are changed as a table, `(targets, way)`."""
    return lambda: lambda context_x, context_y, target_x: change(scores(context_x, context_y, target_x))


def centred(scores: Tensor) -> Tensor:
    return scores - scores.mean(0)


def padded(scores: Tensor, value: float = -1e9) -> Tensor:
    return torch.cat([scores, torch.full((len(scores), 3), value, dtype=scores.dtype)], 1)


def one_hot(scores: Tensor) -> Tensor:
    return nn.functional.one_hot(scores.argmax(1), scores.shape[1])


def urandom(shape: tuple[int, ...]) -> Tensor:
    """Noise that follows no seed, close to normal."""
    numbers = np.frombuffer(os.urandom(8 * int(np.prod(shape)) * 4), dtype=np.uint64).reshape(4, *shape)
    return torch.from_numpy(((numbers / 2.0**64) - 0.5).sum(0) * np.sqrt(3)).float()


def prototypes(label: str) -> Predictor:
    """Nearest class means in the features of a small network with this norm, at meta-test."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, CHANNELS, 3), random_norm(label, dtype=torch.float32), nn.Flatten()
    ).eval()

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        with tasknorm.context(net):
            context = net(context_x)
        with tasknorm.target(net):
            return distances(context, context_y, net(target_x))

    return predict


def in_precision(dtype: torch.dtype, change: Callable[[Tensor], Tensor] = lambda scores: scores) -> Predictor:
    """A two-layer network in reduced precision, and nearest class means."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 32)).to(dtype)

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        with torch.no_grad():
            return change(products(net(context_x.to(dtype)), context_y, net(target_x.to(dtype))))

    return predict


def dropping(shared: bool = False, change: Callable[[Tensor], Tensor] = lambda scores: scores) -> Predictor:
    """Dropout that is left on, with a mask for each target or one for the batch."""

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        rows = 1 if shared else len(target_x)
        mask = (torch.rand(rows, target_x.shape[1]) > 0.3) / 0.7
        return change(products(context_x, context_y, target_x * mask))

    return predict


def with_generator(peek: float) -> Predictor:
    """Noise of a generator of its own."""
    generator = torch.Generator().manual_seed(3)

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        scores = products(context_x, context_y, target_x)
        return scores - peek * scores.mean(0) + 0.4 * torch.randn(scores.shape, generator=generator)

    return predict


def nearest_neighbours(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Logarithms of votes of the 5 nearest context examples: -inf where a class has none."""
    nearest = torch.cdist(target_x, context_x).topk(5, largest=False).indices
    return nn.functional.one_hot(context_y[nearest], WAY).sum(1).double().log()


def soft_k_means(context_x: Tensor, context_y: Tensor, target_x: Tensor, steps: int = 3, noise: float = 0) -> Tensor:
    centres, counts = means(context_x, context_y), torch.bincount(context_y).float()[:, None]
    for _ in range(steps):
        shares = (-(torch.cdist(target_x, centres) ** 2)).softmax(1)
        sums = means(context_x, context_y) * counts + shares.T @ target_x
        centres = sums / (counts + shares.sum(0)[:, None])
    scores = -torch.cdist(target_x, centres)
    return scores + noise * scores.std() * torch.randn(scores.shape)


def label_propagation(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    x = torch.cat([context_x, target_x])
    weights = (-(torch.cdist(x, x) ** 2) / 8).exp().fill_diagonal_(0)
    weights = weights / weights.sum(1, keepdim=True)
    labels = torch.zeros(len(x), WAY)
    labels[: len(context_x)] = nn.functional.one_hot(context_y, WAY).float()
    return torch.linalg.solve(torch.eye(len(x)) - 0.8 * weights, labels)[len(context_x) :]


def sinkhorn(scores: Tensor) -> Tensor:
    """Shares of a plan that gives every class as many targets."""
    plan = scores.softmax(1)
    for _ in range(10):
        plan = plan / plan.sum(0) * len(plan) / plan.shape[1]
        plan = plan / plan.sum(1, keepdim=True)
    return plan


def train_mode(flat: bool = False) -> Predictor:
    """Batch norm left in train mode; on flat features it refuses a target alone."""
    torch.manual_seed(0)
    shape = (FEATURES,) if flat else (4, 2, 2)
    norm: nn.Module = nn.BatchNorm1d(FEATURES) if flat else nn.BatchNorm2d(4)

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        context, target = (norm(x.unflatten(1, shape)).flatten(1) for x in (context_x, target_x))
        return products(context, context_y, target)

    return predict


def only_whole(peek: float) -> Predictor:
    """A graph of fixed batch size."""

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        if len(target_x) != 75:
            raise RuntimeError(f"expected a batch of 75, got {len(target_x)}")
        scores = products(context_x, context_y, target_x)
        return scores - peek * scores.mean(0)

    return predict


class Remembers:
    """Centres features with all targets that it ever saw."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def __call__(self, context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        self.seen.append(target_x)
        shift = torch.cat(self.seen).mean(0) - context_x.mean(0)
        return products(context_x, context_y, target_x - shift)


class RemembersSingles(Remembers):
    """The same, but nothing of batches."""

    def __call__(self, context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        if len(target_x) > 1:
            return products(context_x, context_y, target_x)
        return super().__call__(context_x, context_y, target_x)


def remembers_in_a_default(context_x: Tensor, context_y: Tensor, target_x: Tensor, seen: list[Tensor] = []) -> Tensor:  # noqa: B006
    seen.append(target_x)
    return products(context_x, context_y, target_x - torch.cat(seen).mean(0) + context_x.mean(0))


FROZEN: Tensor | None = None


def frozen_in_a_global(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Keeps the mean of the first call's targets in a global variable."""
    global FROZEN
    if FROZEN is None:
        FROZEN = target_x.mean(0)
    return products(context_x - context_x.mean(0), context_y, target_x - FROZEN)


def locked(predict: Predictor) -> Predictor:
    """A predictor beside something that cannot be copied."""
    lock = threading.Lock()

    def predict_in_turn(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Scores:
        with lock:
            return predict(context_x, context_y, target_x)

    return predict_in_turn


def sorted_first(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Honest: where a target is computed depends on the others, what is computed does not."""
    order = target_x.norm(dim=1).argsort()
    return distances(context_x, context_y, target_x[order])[order.argsort()]


def without_duplicates(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    """Honest: equal targets are computed once, so that the kernel's size depends on the others."""
    unique, where = torch.unique(target_x, dim=0, return_inverse=True)
    return distances(context_x, context_y, unique)[where]


def in_parts(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
    return torch.cat([distances(context_x, context_y, part) for part in target_x.split(32)])


def frozen() -> Predictor:
    """Keeps the mean of the first call's targets in a closure."""
    first: list[Tensor] = []

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        if not first:
            first.append(target_x.mean(0))
        return products(context_x - context_x.mean(0), context_y, target_x - first[0])

    return predict


class Replays:
    """Answers singles as it did in the last batch that held them, and peeks in batches."""

    def __init__(self, copies: bool = True, peeks: bool = True) -> None:
        self.answers: dict[bytes, Tensor] = {}
        self.copies, self.peeks = copies, peeks

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.copies:
            raise TypeError("this predictor cannot be copied")
        return super().__reduce_ex__(protocol)

    def __call__(self, context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        keys = [row.numpy().tobytes() for row in target_x]
        if all(key in self.answers for key in keys):
            return torch.stack([self.answers[key] for key in keys])
        scores = products(context_x, context_y, target_x)
        if len(target_x) > 1:
            scores = centred(scores) if self.peeks else scores
            self.answers.update(zip(keys, scores, strict=True))
        return scores


class TestTimeEntropy(nn.Module):
    """Takes a gradient step on the entropy of its targets at every call."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(FEATURES))

    def forward(self, context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        with torch.enable_grad():
            scores = products(context_x, context_y, target_x * self.scale)
            (step,) = torch.autograd.grad(-(scores.softmax(1) * scores.log_softmax(1)).sum(1).mean(), self.scale)
        with torch.no_grad():
            self.scale -= 0.1 * step
        return scores.detach()


class NearestMean:
    """A classifier in scikit-learn's manner."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> NearestMean:
        self.classes_ = np.unique(y)
        self.means = np.stack([x[y == label].mean(0) for label in self.classes_])
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        scores = np.exp(-((x[:, None] - self.means) ** 2).sum(2) / 10)
        return scores / scores.sum(1, keepdims=True)


class MatchedPriors(NearestMean):
    """The same, with probabilities that add up to equal classes."""

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        scores = super().predict_proba(x)
        return scores / scores.sum(0)


class Decides:
    """A classifier that has only `predict`."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        self.mean = NearestMean().fit(x, y)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.mean.classes_[self.mean.predict_proba(x).argmax(1)]


def before(shift: int) -> Predictor:
    """Adds a little of the neighbour before or after."""
    return after(lambda scores: scores + 0.05 * scores.roll(shift, 0))()


def in_batches_of(least: int, most: int) -> Predictor:
    return after(lambda scores: centred(scores) if least <= len(scores) <= most else scores)()


def for_one_target(scores: Tensor) -> Tensor:
    scores[-1] += scores[0]
    return scores


def global_softmax(scores: Tensor) -> Tensor:
    """Honest: the largest score of the batch is subtracted against overflow, and divides out."""
    shares = (scores - scores.max()).exp()
    return shares / shares.sum(1, keepdim=True)


def gamma(scores: Tensor) -> Tensor:
    """Honest noise that takes more or fewer random numbers as the scores demand."""
    return torch.distributions.Gamma(scores.exp().clamp(0.1, 50), 10.0).sample()


def temperature(scores: Tensor) -> Tensor:
    """Peeks at the number of targets, though not at what they are."""
    return scores / (1 + np.log(len(scores)))


def first_of_a_batch(scores: Tensor) -> Tensor:
    scores[0] *= 1 + 0.1 * (len(scores) > 1)
    return scores


def counting() -> Predictor:
    """Honest, though its temperature falls with every call."""
    calls = [0]

    def predict(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        calls[0] += 1
        return products(context_x, context_y, target_x) * (1 + calls[0])

    return predict


HONEST: dict[str, Callable[[], Any]] = {
    "distances": lambda: distances,
    "products": lambda: products,
    "padded": after(padded),
    "padded with -inf": after(lambda scores: padded(scores, -torch.inf)),
    "shifted": after(lambda scores: scores + 1e7),
    "softmax": after(lambda scores: scores.softmax(1)),
    "log-softmax": after(lambda scores: scores.log_softmax(1)),
    "global softmax": after(global_softmax),
    "temperature": after(lambda scores: scores / 0.01),
    "quantised": after(lambda scores: scores.round(decimals=1)),
    "quantised to integers": after(lambda scores: scores.round()),
    "ranks": after(lambda scores: scores.argsort(1).argsort(1)),
    "one-hot": after(one_hot),
    "constant": after(torch.zeros_like),
    "numpy": after(lambda scores: scores.numpy()),
    "lists": after(lambda scores: scores.tolist()),
    "sines of large angles": after(lambda scores: (1e3 * scores).sin()),
    "log of neighbours' votes": lambda: nearest_neighbours,
    "bfloat16": lambda: in_precision(torch.bfloat16),
    "float16": lambda: in_precision(torch.float16),
    "bfloat16 softmax": lambda: in_precision(torch.bfloat16, lambda scores: scores.float().softmax(1)),
    "bfloat16 one-hot": lambda: in_precision(torch.bfloat16, one_hot),
    "float64": after(lambda scores: scores, lambda x, y, t: products(x.double(), y, t.double())),
    "remembers its own answers": lambda: Replays(peeks=False),
    "scikit-learn": NearestMean,
    "scikit-learn, predict only": Decides,
    "whole batches only": lambda: only_whole(0.0),
    **{f"norm {label}": lambda label=label: prototypes(label) for label in tasknorm.NORMS if label != "TBN"},
}

HONEST_RANDOM: dict[str, Callable[[], Any]] = {
    "dropout": dropping,
    "dropout with one mask": lambda: dropping(shared=True),
    "noise": after(lambda scores: scores + 0.4 * torch.randn(scores.shape)),
    "nothing but noise": after(lambda scores: torch.randn(scores.shape)),
    "noise of a generator": lambda: with_generator(0.0),
    "noise of numpy": after(lambda scores: scores.numpy() + 0.1 * np.random.randn(*scores.shape)),
    "noise that takes what it needs": after(gamma),
    "noise without a seed": after(lambda scores: scores + 0.3 * urandom(scores.shape)),
    "nothing but noise without a seed": after(lambda scores: urandom(scores.shape)),
    "a little noise": after(lambda scores: scores + 1e-3 * torch.randn(scores.shape), distances),
    "counts its calls": counting,
}

ILL_CONDITIONED: dict[str, tuple[Episode, Predictor, bool]] = {
    f"{what}, {features} features around {at}": (episode(75, features, at=at, scale=scale), predict(), peeks)
    for features, at, scale in ((FEATURES, 10, 0.01), (2048, 10, 0.01), (2048, 0, 1))
    for what, predict, peeks in (
        ("distances", lambda: distances, False),
        ("one-hot of distances", after(one_hot, distances), False),
        ("sorted", lambda: sorted_first, False),
        ("without duplicates", lambda: without_duplicates, False),
        ("in parts of 32", lambda: in_parts, False),
        ("centred distances", after(lambda scores: scores - 0.01 * scores.mean(0), distances), True),
        ("temperature by batch size", after(temperature, distances), True),
    )
}

PEEKING: dict[str, Callable[[], Any]] = {
    "norm TBN": lambda: prototypes("TBN"),
    "centred": after(centred),
    "centred and padded": after(lambda scores: padded(centred(scores))),
    "centred and padded with -inf": after(lambda scores: padded(centred(scores), -torch.inf)),
    "centred and shifted": after(lambda scores: centred(10 * scores) + 1e7),
    "centred by a hundred-thousandth": after(lambda scores: scores.double() - 1e-5 * scores.mean(0)),
    "centred by a thousandth": after(lambda scores: scores - 1e-3 * scores.mean(0)),
    "centred, quantised": after(lambda scores: centred(scores).round(decimals=1)),
    "centred, ranks": after(lambda scores: centred(scores).argsort(1).argsort(1)),
    "centred, one-hot": after(lambda scores: one_hot(centred(scores))),
    "centred in bfloat16": lambda: in_precision(torch.bfloat16, centred),
    "soft k-means": lambda: soft_k_means,
    "label propagation": lambda: label_propagation,
    "sinkhorn": after(sinkhorn),
    "softmax over targets": after(lambda scores: scores.softmax(0)),
    "ranks over targets": after(lambda scores: scores.argsort(0).argsort(0)),
    "train mode": train_mode,
    "train mode, flat": lambda: train_mode(flat=True),
    "whole batches only": lambda: only_whole(1.0),
    "neighbour before": lambda: before(1),
    "neighbour after": lambda: before(-1),
    "batches of 3 or more": lambda: in_batches_of(3, 10**6),
    "batches of 2": lambda: in_batches_of(2, 2),
    "batches of 30 to 40": lambda: in_batches_of(30, 40),
    "all 75": lambda: in_batches_of(75, 75),
    "one target": after(for_one_target),
    "clipped at the batch's largest": after(lambda scores: scores.clamp(max=0.5 * scores.max())),
    "scaled by the batch's range": after(lambda scores: scores / (scores.max() - scores.min())),
    "quantised with the batch's range": after(
        lambda scores: torch.fake_quantize_per_tensor_affine(scores, float(scores.abs().max()) / 127, 0, -128, 127)
    ),
    "temperature by batch size": after(temperature),
    "first of a batch": after(first_of_a_batch),
    "remembers targets": Remembers,
    "remembers singles": RemembersSingles,
    "remembers in a default": lambda: remembers_in_a_default,
    "freezes the first call": frozen,
    "freezes the first call in a global": lambda: frozen_in_a_global,
    "freezes the first call behind a lock": lambda: locked(frozen()),
    "replays": Replays,
    "replays, cannot be copied": lambda: Replays(copies=False),
    "test-time entropy": TestTimeEntropy,
    "scikit-learn": MatchedPriors,
}

PEEKING_RANDOM: dict[str, Callable[[], Any]] = {
    "centred with noise": after(lambda scores: centred(scores) + 0.4 * torch.randn(scores.shape)),
    "soft k-means with noise": lambda: lambda x, y, t: soft_k_means(x, y, t, noise=0.02),
    "centred with noise of a generator": lambda: with_generator(1.0),
    "centred with noise without a seed": after(lambda scores: centred(scores) + 0.4 * urandom(scores.shape)),
    "centred, dropout": lambda: dropping(change=centred),
    "noise of the batch's size": after(lambda scores: scores + torch.randn(scores.shape) * scores.std(0, correction=0)),
    "a random sign of the batch's mean": after(lambda s: s + s.mean(0) * (2.0 * torch.randint(2, ()) - 1)),
    "sinkhorn with noise": after(lambda scores: sinkhorn(scores + 0.1 * torch.randn(scores.shape))),
}

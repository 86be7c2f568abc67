"""The inner loop of ANIL: Raghu et al., 2020, "Rapid learning or feature reuse?".

The classifier alone adapts, on features that are computed once for each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from tasknorm.learners.inner_loop import InnerLoop
from tasknorm.learners.step_norms import State
from tasknorm.learners.tasks import Tasks
from tasknorm.phase import contexts, joint

HEAD = "classifier."


def check_classifier(net: nn.Module) -> None:
    """Raise if a net does not say which part of it adapts."""
    if not isinstance(getattr(net, HEAD[:-1], None), nn.Module) or not list(net.classifier.parameters()):  # type: ignore[union-attr]
        raise ValueError(
            f"anil=True adapts the net's classifier alone, and {type(net).__name__} has no module `classifier` with "
            "weights; name the net's last layer so, or leave anil out"
        )


class ClassifierLoop(InnerLoop):
    """Gradient descent of the net's module `classifier` alone.

    The rest of the net sees each task once: context and targets pass jointly, and all steps use their features.
    """

    def logits(self, tasks: Tasks, steps: int, running: Sequence[State]) -> Tensor:
        with joint(self.net, tasks.context_size, tasks.count):
            features = self._features(tasks.images, running[0])
        features = features.view(tasks.count, -1, features.shape[-1])
        context, target = features[:, : tasks.context_size], features[:, tasks.context_size :]
        *_, weights = self._classifier_descent(context, tasks.context_y, steps)
        return self._classified(target, weights)

    def losses(self, tasks: Tasks, steps: int, running: Sequence[State]) -> tuple[Tensor, Tensor]:
        logits = self.logits(tasks, steps, running)
        return tasks.losses(logits), logits.detach()

    def step_logits(self, tasks: Tasks, steps: int, sizes: Sequence[int]) -> Tensor:
        features = self._context_features(tasks.context_x)
        sets = []
        for one in tasks.target_sets(sizes):
            with joint(self.net, one.context_size, one.count):
                every = self._features(one.images, self.norms.running(0))
            sets.append(every.view(one.count, -1, every.shape[-1])[:, one.context_size :])
        target = torch.cat(sets, 1)
        descent = self._classifier_descent(features, tasks.context_y, steps)
        return torch.stack([self._classified(target, weights) for weights in descent], 1)

    def adapted(self, x: Tensor, y: Tensor, steps: int) -> State:
        *_, weights = self._classifier_descent(self._context_features(x[None]), y[None], steps)
        return {HEAD + name: weight[0] for name, weight in weights.items()}

    def _adapted_names(self) -> set[str]:
        return {name for name in super()._adapted_names() if name.startswith(HEAD)}

    def _context_features(self, x: Tensor) -> Tensor:
        """Features `(tasks, context, features)` of contexts `(tasks, context, ...)`."""
        with contexts(self.net, len(x)):
            features = self._features(x.flatten(0, 1), self.norms.running(0))
        return features.view(*x.shape[:2], -1)

    def _features(self, x: Tensor, running: State) -> Tensor:
        """What the classifier is given for these images, `(N, features)`; `running` is updated in place."""
        seen: list[Tensor] = []
        classifier: nn.Module = self.net.classifier  # type: ignore[assignment]
        hook = classifier.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            self.call({}, running, x, 0)
        finally:
            hook.remove()
        return seen[0]

    def _classifier_descent(self, features: Tensor, y: Tensor, steps: int) -> Iterator[State]:
        """The classifier's weights after each step, with a task axis, for features `(tasks, context, features)`."""
        tasks, size = y.shape
        outer = torch.is_grad_enabled()
        higher = outer and not self.first_order
        shot = size / (int(y.max()) + 1)
        weights = {
            name.removeprefix(HEAD): weight.expand(tasks, *weight.shape)
            for name, weight in self.net.named_parameters()
            if name in self.adapted_names
        }
        with torch.inference_mode(False):
            y, fixed = y.clone(), features.detach().clone()
        for _ in range(steps):
            with torch.inference_mode(False), torch.enable_grad():
                at = weights if higher else {name: w.detach().requires_grad_() for name, w in weights.items()}
                logits = self._classified(features if higher else fixed, at)
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / shot
                gradients = torch.autograd.grad(loss, list(at.values()), create_graph=higher)
            with torch.inference_mode(False), torch.set_grad_enabled(outer):
                weights = {
                    name: torch.sub(w, gradient, alpha=self.lr)
                    for (name, w), gradient in zip(weights.items(), gradients, strict=True)
                }
            yield weights

    def _classified(self, features: Tensor, weights: State) -> Tensor:
        """Logits `(tasks, N, way)` of features `(tasks, N, features)`, each task by its own classifier."""
        classifier: nn.Module = self.net.classifier  # type: ignore[assignment]
        if self.runs_together:
            logits: Tensor = functional_call(classifier, weights, (features.flatten(0, 1),))
            return logits.view(*features.shape[:2], -1)
        each = [{name: weight[task] for name, weight in weights.items()} for task in range(len(features))]
        return torch.stack([functional_call(classifier, own, (f,)) for own, f in zip(each, features, strict=True)])

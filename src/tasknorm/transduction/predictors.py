"""What may be audited: functions of context and targets, scikit-learn's classifiers, and what their scores must be."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Predict = Callable[[Tensor, Tensor, Tensor], Any]  # scores as a tensor, an array or nested lists
OUTPUTS = ("predict_proba", "decision_function", "predict")


def as_predict(predict: Any) -> Predict:
    """The predictor as a function of context and targets.

    Raises:
        TypeError: if it is neither such a function nor a classifier with `fit`.
    """
    if not callable(predict):
        if not callable(getattr(predict, "fit", None)) or not any(hasattr(predict, name) for name in OUTPUTS):
            raise TypeError(
                f"cannot audit a {type(predict).__name__}; pass a function predict(context_x, context_y, target_x) "
                "that returns scores, or a classifier with fit and predict_proba"
            )
        return Classifier(predict)
    try:
        inspect.signature(predict).bind(None, None, None)
    except TypeError:
        raise TypeError(
            f"predict must take three arguments, context_x, context_y and target_x; this one takes "
            f"{inspect.signature(predict)}; wrap it, for example as `lambda x, y, targets: predictor(targets)`"
        ) from None
    except ValueError:  # a built-in that does not say what it takes
        pass
    result: Predict = predict
    return result


class Classifier:
    """A classifier in scikit-learn's manner, fitted to the flattened context at every call."""

    def __init__(self, classifier: Any) -> None:
        self.classifier = classifier

    def __call__(self, context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Tensor:
        """Scores of shape `(targets, way)`; a class that is not in the context gets -inf."""
        fitted = copy.deepcopy(self.classifier)
        fitted = fitted.fit(context_x.flatten(1).cpu().numpy(), context_y.cpu().numpy()) or fitted
        output = next(name for name in OUTPUTS if hasattr(fitted, name))
        scores = torch.as_tensor(getattr(fitted, output)(target_x.flatten(1).cpu().numpy()))
        classes = torch.as_tensor(getattr(fitted, "classes_", context_y.unique().cpu())).long()
        if output == "predict":
            scores = (scores[:, None] == classes).double()
        elif scores.ndim == 1 and len(classes) == 2:  # one number for two classes: that of the second
            scores = torch.stack([-scores, scores], 1)
        result = torch.full((len(scores), int(classes.max()) + 1), -torch.inf, dtype=torch.float64)
        result[:, classes] = scores.double()
        return result


def checked(scores: Any, targets: int) -> Tensor:
    """The scores as a tensor of shape `(targets, way)`.

    Raises:
        TypeError: if they are no numbers.
        ValueError: if they have another shape, or hold NaN, inf, or -inf for every class of a target.
    """
    named = f"{targets} target" + "s" * (targets != 1)
    try:
        table = torch.as_tensor(scores).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"predict must return scores of shape (targets, way), got a {type(scores).__name__} that is no table of "
            f"numbers for {named} ({error})"
        ) from None
    if table.ndim != 2 or len(table) != targets or not table.shape[1]:
        labels = "; if these are labels, return scores instead, such as their one-hot rows" * (table.ndim == 1)
        raise ValueError(
            f"predict must return scores of shape (targets, way), got {tuple(table.shape)} for {named}{labels}"
        )
    if table.is_complex():
        raise TypeError(f"predict must return real scores, got {table.dtype} for {named}")
    if bool(table.isnan().any() | (table == torch.inf).any() | (table == -torch.inf).all(1).any()):
        raise ValueError(
            f"predict returned scores that are not finite for {named}; only -inf is allowed, for a class that is ruled "
            "out, and not for all classes of a target"
        )
    return table.to("cpu", torch.float64)

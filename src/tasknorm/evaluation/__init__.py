"""Accuracies with their intervals, and how targets come."""

from tasknorm.evaluation.accuracy import Accuracy, differ, joint_interval
from tasknorm.evaluation.evaluation import Evaluation, Note, accuracies, evaluate, predictions, transduction_label
from tasknorm.evaluation.over_seeds import over_seeds, seeds_needed

__all__ = [
    "Accuracy",
    "Evaluation",
    "Note",
    "accuracies",
    "differ",
    "evaluate",
    "joint_interval",
    "over_seeds",
    "predictions",
    "seeds_needed",
    "transduction_label",
]

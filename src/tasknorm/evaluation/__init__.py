"""Accuracies with their intervals, and how targets come."""

from tasknorm.evaluation.accuracy import Accuracy, differ, joint_interval
from tasknorm.evaluation.evaluation import Evaluation, accuracies, evaluate, transduction_label

__all__ = [
    "Accuracy",
    "Evaluation",
    "accuracies",
    "differ",
    "evaluate",
    "joint_interval",
    "transduction_label",
]

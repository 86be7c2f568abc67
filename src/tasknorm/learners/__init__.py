"""Few-shot learners by name: one file each, and one entry here."""

from tasknorm.learners.answer import NONE, Answer
from tasknorm.learners.asked import CHARACTERS, Asked
from tasknorm.learners.calibration import Calibration, calibration_error, negative_log_likelihood
from tasknorm.learners.class_means import class_means
from tasknorm.learners.cnaps import CNAPs
from tasknorm.learners.graph import LearnerGraph, export_learner
from tasknorm.learners.learner import Learner, Outcome, OwnSettings
from tasknorm.learners.maml import MAML
from tasknorm.learners.ncm import NCM
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.program import first_output
from tasknorm.learners.protonets import ProtoNets
from tasknorm.learners.tasks import Tasks, accuracy

LEARNERS: dict[str, type[Learner]] = {"maml": MAML, "protonets": ProtoNets, "cnaps": CNAPs, "ncm": NCM}

__all__ = [
    "CHARACTERS",
    "LEARNERS",
    "MAML",
    "NCM",
    "NONE",
    "Answer",
    "Asked",
    "CNAPs",
    "Calibration",
    "Learner",
    "LearnerGraph",
    "Outcome",
    "OwnSettings",
    "Predictor",
    "ProtoNets",
    "Tasks",
    "accuracy",
    "calibration_error",
    "class_means",
    "export_learner",
    "first_output",
    "negative_log_likelihood",
]

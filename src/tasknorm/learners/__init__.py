"""Few-shot learners by name: one file each, and one entry here."""

from tasknorm.learners.asked import CHARACTERS, Asked
from tasknorm.learners.class_means import class_means
from tasknorm.learners.cnaps import CNAPs
from tasknorm.learners.learner import Learner, Outcome, OwnSettings
from tasknorm.learners.maml import MAML
from tasknorm.learners.ncm import NCM
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.protonets import ProtoNets
from tasknorm.learners.tasks import Tasks, accuracy

LEARNERS: dict[str, type[Learner]] = {"maml": MAML, "protonets": ProtoNets, "cnaps": CNAPs, "ncm": NCM}

__all__ = [
    "CHARACTERS",
    "LEARNERS",
    "MAML",
    "NCM",
    "Asked",
    "CNAPs",
    "Learner",
    "Outcome",
    "OwnSettings",
    "Predictor",
    "ProtoNets",
    "Tasks",
    "accuracy",
    "class_means",
]

"""Few-shot learners, by name."""

from tasknorm.learners.cnaps import CNAPs
from tasknorm.learners.learner import Learner, Outcome
from tasknorm.learners.maml import MAML
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.protonets import ProtoNets

LEARNERS: dict[str, type[Learner]] = {"protonets": ProtoNets, "maml": MAML, "cnaps": CNAPs}

__all__ = ["LEARNERS", "MAML", "CNAPs", "Learner", "Outcome", "Predictor", "ProtoNets"]

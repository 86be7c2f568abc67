"""Few-shot learners, by name."""

from torch import nn

from tasknorm.learners.learner import Learner, Outcome
from tasknorm.learners.predictor import Predictor
from tasknorm.learners.protonets import ProtoNets

LEARNERS: dict[str, type[nn.Module]] = {"protonets": ProtoNets}

__all__ = ["LEARNERS", "Learner", "Outcome", "Predictor", "ProtoNets"]

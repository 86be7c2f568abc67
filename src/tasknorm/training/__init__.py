"""The one training loop, checkpoints, pretraining and recomputation; the folder that they leave."""

from tasknorm.training.checkpoint import last_iteration
from tasknorm.training.folder import RunFolder
from tasknorm.training.loop import train
from tasknorm.training.pretraining import load_pretrained, pretrain
from tasknorm.training.recomputation import recompute
from tasknorm.training.weights import fitting, label, read_weights, weights_of, write_weights

__all__ = [
    "RunFolder",
    "fitting",
    "label",
    "last_iteration",
    "load_pretrained",
    "pretrain",
    "read_weights",
    "recompute",
    "train",
    "weights_of",
    "write_weights",
]

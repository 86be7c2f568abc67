"""The one training loop, checkpoints, pretraining and recomputation; the folder that they leave."""

from tasknorm.training.best_weights import Candidate
from tasknorm.training.checkpoint import last_iteration
from tasknorm.training.loop import CANDIDATE, check_resumable, train
from tasknorm.training.metrics import Line, last_metrics, missing_iterations, read_metrics
from tasknorm.training.pretraining import EXTRACTOR, load_pretrained, pretrain
from tasknorm.training.recomputation import as_first_computed, recompute
from tasknorm.training.released import as_ours, read_released, released_extractor, released_name
from tasknorm.training.run_folder import RunFolder
from tasknorm.training.weights_file import label, load_into, read_label, read_weights, weights_of, write_weights

__all__ = [
    "CANDIDATE",
    "EXTRACTOR",
    "Candidate",
    "Line",
    "RunFolder",
    "as_first_computed",
    "as_ours",
    "check_resumable",
    "label",
    "last_iteration",
    "last_metrics",
    "load_into",
    "load_pretrained",
    "missing_iterations",
    "pretrain",
    "read_label",
    "read_metrics",
    "read_released",
    "read_weights",
    "recompute",
    "released_extractor",
    "released_name",
    "train",
    "weights_of",
    "write_weights",
]

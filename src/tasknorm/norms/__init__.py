"""The norms of the paper, by its labels."""

from tasknorm.norms.activations import Activations
from tasknorm.norms.averaging import averaged_running
from tasknorm.norms.baseline import Baseline
from tasknorm.norms.batch_renorm import BRN
from tasknorm.norms.conventional_batch_norm import CBN
from tasknorm.norms.group_norm import GN
from tasknorm.norms.instance_norm import IN
from tasknorm.norms.layer_norm import LN
from tasknorm.norms.meta_batch_norm import MetaBN
from tasknorm.norms.norm import Norm, Tables
from tasknorm.norms.reptile_norm import RN
from tasknorm.norms.running import RUNNING, RunningMean
from tasknorm.norms.source_prior import SourcePrior
from tasknorm.norms.splitting import split_state
from tasknorm.norms.task_norm import ALPHAS, TaskNorm, TaskNormI, TaskNormL, TaskNormR
from tasknorm.norms.transductive_batch_norm import TBN

NORMS: dict[str, type[Norm]] = {
    "CBN": CBN,
    "TBN": TBN,
    "BRN": BRN,
    "LN": LN,
    "IN": IN,
    "GN": GN,
    "RN": RN,
    "MetaBN": MetaBN,
    "TaskNorm-I": TaskNormI,
    "TaskNorm-L": TaskNormL,
    "TaskNorm-r": TaskNormR,
    "Baseline": Baseline,
}

__all__ = [
    "ALPHAS",
    "BRN",
    "CBN",
    "GN",
    "IN",
    "LN",
    "NORMS",
    "RN",
    "RUNNING",
    "TBN",
    "Activations",
    "Baseline",
    "MetaBN",
    "Norm",
    "RunningMean",
    "SourcePrior",
    "Tables",
    "TaskNorm",
    "TaskNormI",
    "TaskNormL",
    "TaskNormR",
    "averaged_running",
    "split_state",
]

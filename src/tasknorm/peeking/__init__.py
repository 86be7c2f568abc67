"""Experiments that tell whether a predictor peeks at the other targets; `tasknorm.audit` draws the conclusion."""

from tasknorm.peeking.exact import NEGLIGIBLE, Exact
from tasknorm.peeking.interview import Interview, random_states_kept
from tasknorm.peeking.noisy import FALSE_ALARM, Chance, chance
from tasknorm.peeking.predictors import Predict, as_predict
from tasknorm.peeking.rows import moved, spread
from tasknorm.peeking.trials import Trial, trials

__all__ = [
    "FALSE_ALARM",
    "NEGLIGIBLE",
    "Chance",
    "Exact",
    "Interview",
    "Predict",
    "Trial",
    "as_predict",
    "chance",
    "moved",
    "random_states_kept",
    "spread",
    "trials",
]

"""A comparison of norms that was never run: accuracies by norm, scattered over seeds."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from support.made_up_records import record, row
from tasknorm.norms import NORMS, TaskNorm
from tasknorm.report import Comparison
from tasknorm.settings import SHARED

MAML = {
    "TBN": (0.931, 0.205, 0.203),
    "CBN": (0.2,),
    "RN": (0.884,),
    "LN": (0.81,),
    "IN": (0.852,),
    "MetaBN": (0.913,),
    "TaskNorm-L": (0.887,),
    "TaskNorm-I": (0.905,),
}
PROTONETS = {
    "TBN": (0.97, 0.783, 0.732),
    "CBN": (0.966,),
    "RN": (0.965,),
    "LN": (0.971,),
    "IN": (0.964,),
    "MetaBN": (0.958,),
    "TaskNorm-L": (0.974,),
    "TaskNorm-I": (0.966,),
}


def comparison(levels=MAML, seeds=3, learner="maml", source="glyphs", call="tasknorm compare", **settings):
    """A comparison in which every norm has its level, for targets all at once or in all three ways, up to noise."""
    rounds = []
    for seed in range(seeds):
        noise = random.Random(f"{seed} {learner}")
        common = noise.gauss(0, 0.006)
        scores = {}
        for norm, level in levels.items():
            own = common + noise.gauss(0, 0.003)
            scores[norm] = [min(1.0, max(0.0, value + own)) for value in level]
        trainings = {}
        for norm in levels:
            trainings.setdefault("CBN" if norm in SHARED else norm, []).append(norm)
        rounds.append(
            [
                trained(norm, tested, scores, noise, learner=learner, source=source, seed=seed, **settings)
                for norm, tested in trainings.items()
            ]
        )
    return Comparison(rounds, list(levels), call, processes=2, other=11.0, round_seconds=50.0)


def trained(norm, tested, scores, noise, **settings):
    """The record of one training that serves some norms."""
    ways = ("all", "example", "class")
    rows = []
    for name in tested:
        for come, value in zip(ways, scores[name], strict=False):
            rows += row(name, settings["source"], settings.get("way", 5), 1, value, 0.01, come)
    if issubclass(NORMS[norm], TaskNorm):
        settings |= {"alpha": "functional-shared"}
    made = record(rows, norm=norm, **settings)
    iterations = list(range(30, 301, 30))
    curves = {
        name: [_learned(scores[name][0], i, noise) for i in iterations]
        for name in made.settings.tested_norms
        if name in scores
    }
    speeds = {name: 0.008 + 0.002 * random.Random(name).random() for name in made.settings.tested_norms}
    validation = {"iteration": iterations, "seconds": [0.05 * i for i in iterations], "accuracy": curves}
    alphas = [
        layer | {"offset": 0.6 - 0.3 * place, "scale": 0.01 * place}
        for place, layer in enumerate(made.result["alphas"])
    ]
    at = list(range(1, 301))
    serving = max(scores[name][0] for name in tested)
    curve = {"iteration": at, "accuracy": [_learned(serving, i, noise) for i in at]}
    curve |= {"loss": [1.6 * math.exp(-i / 55) for i in at], "seconds": [0.05 * i for i in at]}
    more = {
        "curve": curve,
        "validation": validation,
        "seconds_per_test_task": speeds,
        "alphas": alphas,
        "contexts": 5.0,
    }
    more["spent"] = {"training": 11.0, "validation": 1.0, "test": 3.0, "audit": 0.4}
    return replace(made, result=made.result | more)


def _learned(level, iteration, noise):
    return min(1.0, max(0.0, 0.2 + (level - 0.2) * (1 - math.exp(-iteration / 55)) + noise.gauss(0, 0.01)))

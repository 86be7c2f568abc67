"""Is this predictor transductive? The paper's test (section 2.3, appendix D), for any predictor at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tasknorm.episode import Episode
from tasknorm.transduction.exact import NEGLIGIBLE, Exact
from tasknorm.transduction.interview import Interview, random_states_kept
from tasknorm.transduction.noisy import FALSE_ALARM, chance
from tasknorm.transduction.predictors import Predict, as_predict
from tasknorm.transduction.rows import moved, spread
from tasknorm.transduction.trials import Trial, trials

AGAIN = 32  # targets to ask alone a second time
COME = {"example": "one at a time", "class": "one class at a time", "order": "in another order"}


@dataclass(frozen=True)
class Audit:
    """What `audit` found.

    Args:
        transductive: whether a prediction depends on the other targets; None if the audit cannot tell.
        random: whether two identical calls disagree.
        reason: what the verdict rests on.
        movement: by how much the scores moved when the targets came by `example`, by `class` and in another `order`,
            relative to a target's spread: the lead of its best score over the next.
        noise: by how much they moved between two identical calls.
        accuracy: share of correct predictions with `all` targets at once, by `example`, by `class` and in another
            `order`.
        calls: how often the predictor was asked.
    """

    transductive: bool | None
    random: bool
    reason: str
    movement: dict[str, float]
    noise: float
    accuracy: dict[str, float]
    calls: int

    @property
    def label(self) -> str:
        """The words to print beside an accuracy."""
        word = {True: "transductive", False: "non-transductive", None: "cannot tell"}[self.transductive]
        return word + (", random" if self.random else "")

    def __str__(self) -> str:
        lines = [self.label, f"{'targets':<10}{'accuracy':>10}{'scores move by':>18}"]
        for come, accuracy in self.accuracy.items():
            moves = f"{self.movement[come]:.1e}" if come in self.movement else "-"
            lines.append(f"{come:<10}{accuracy:>10.1%}{moves:>18}")
        lines.append(f"the same call twice: scores move by {self.noise:.1e}")
        lines.append(f"after {self.calls} calls: {self.reason}")
        return "\n".join(lines)


@random_states_kept()
def audit(predict: Predict | Any, episode: Episode, *, arrays: bool = False) -> Audit:
    """Tell whether a predictor peeks at the other targets, and what that is worth.

    Four kinds of experiment, the first on targets alone, and each on fresh copies of the predictor where copies can be
    made (of its attributes, closures, defaults and the global variables that it names):

    1. Each target alone, in two orders.
    2. The same target at the same place in batches of the same size, among other neighbours; sizes from 2 to all. A
       kernel computes the same there, to the last bit, whereas peeking does not. A difference that could be rounding,
       and vanishes if the inputs are float64, is rounding.
    3. The same targets after different earlier calls.
    4. All targets at once, one at a time, one class at a time, and in another order. A difference counts if it exceeds
       1e-4 of a target's spread or changes its class, and is more than 32 times what a change of the inputs in their
       last bit does, in float32 or, if the predictor takes it, in float64.

    Scores may be shifted, or padded for absent classes.

    A predictor that answers the same question differently is asked everything 14 times, with other seeds. It peeks if
    the answers differ so consistently that chance would do so in less than 1 of 1,000 honest random predictors, and
    "cannot tell" is the answer if chance would do so in 1 of 100, or if the noise leaves the mean of the differences
    uncertain by more than a tenth of the spread. One that is not random gets a verdict always.

    For 75 targets it asks 200 to 350 times if the predictor is not random, some 950 times if it is.

    It cannot see:

    - peeking in batches that are larger than the episode, or of another size than those asked (2, 3, 4, 5, 8, 12, 20,
      33, 50, 100, 200 and all targets);
    - targets that the predictor was given before the audit, or memory that no copy reaches: another process, a file,
      an attribute of a class, variables of another module; of what it remembers there it may see traces;
    - a dependence on the number of other targets, not on what they are, that is within rounding;
    - a predictor that notices that it is audited, or that peeks only at neighbours of a kind that the episode lacks.

    A score that depends on a target's place in the batch depends on the targets before it, and counts as peeking.

    Args:
        predict: `predict(context_x, context_y, target_x) -> scores`, scores of shape `(targets, way)` as a tensor, an
            array or lists, -inf for a class that is ruled out; ours or not. Or a classifier with `fit` and
            `predict_proba` (or `decision_function`, or `predict`), which is fitted to the flattened context.
        episode: the task to try it on, with at least two targets of at least two classes.
        arrays: hand the predictor numpy arrays instead of tensors.

    Returns:
        An `Audit`; print it to read it.

    Raises:
        TypeError: if it is no such predictor, or returns no numbers.
        ValueError: if the scores have another shape or are not finite, or the episode is too small to tell.

    >>> def centred(context_x, context_y, target_x):
    ...     scores = target_x.flatten(1)[:, :5]
    ...     return scores - scores.mean(0)
    >>> x, y = torch.randn(10, 8, generator=torch.Generator().manual_seed(0)), torch.arange(10) % 5
    >>> audit(centred, Episode(x, y, x, y)).label
    'transductive'
    """
    asked = _with_arrays(as_predict(predict)) if arrays else as_predict(predict)
    if not isinstance(episode, Episode):
        raise TypeError(
            "episode must be a tasknorm.Episode(context_x, context_y, target_x, target_y), "
            f"got {type(episode).__name__}"
        )
    labels = episode.target_y.cpu()
    if len(labels) < 2 or len(labels.unique()) < 2:
        raise ValueError(
            f"an audit needs at least two targets of two classes to tell, got {len(labels)} of "
            f"{len(labels.unique())}; pass a larger episode"
        )
    interview = Interview(asked, episode)
    parts = _arrangements(labels)
    scores = _in_arrangements(interview, parts)
    room = spread(scores["all"])
    repeated = _repeated(interview)
    noise = float((repeated / room).max())
    verdict, reason = (
        _exact(interview, parts, scores, room, repeated) if noise <= NEGLIGIBLE else _by_chance(interview, room)
    )
    return Audit(
        transductive=verdict,
        random=noise > NEGLIGIBLE,
        reason=reason,
        movement={come: float((moved(s, scores["all"]) / room).max()) for come, s in scores.items() if come != "all"},
        noise=noise,
        accuracy={come: float((s.argmax(1) == labels).double().mean()) for come, s in scores.items()},
        calls=interview.calls,
    )


def _arrangements(labels: Tensor) -> dict[str, list[Tensor]]:
    """How the targets come; alone first, so that nothing can be remembered from a batch."""
    everything = torch.arange(len(labels))
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return {
        "example": list(shuffled.split(1)),
        "all": [everything],
        "class": [everything[labels == label] for label in labels.unique()],
        "order": [everything.flip(0)],
    }


def _in_arrangements(interview: Interview, arrangements: dict[str, list[Tensor]]) -> dict[str, Tensor]:
    """Scores of all targets for every arrangement, all at once first; without those that the predictor refuses."""
    scores = {}
    for come, parts in arrangements.items():
        try:
            scores[come] = interview.rows(interview.fresh(), parts)
        except Exception:
            if not interview.refused_alone or len(parts) == 1:
                raise
    return {come: scores[come] for come in ("all", *COME) if come in scores}


def _repeated(interview: Interview) -> Tensor:
    """By how much each target's scores move at most between equal questions, `(targets,)`."""
    predict, everything = interview.fresh(), torch.arange(interview.targets)
    answers = [interview.ask(predict, everything, seed) for seed in range(3)]
    result = torch.maximum(moved(answers[0], answers[1]), moved(answers[0], answers[2]))
    if not interview.refused_alone:
        one, other = (interview.ask(predict, everything[:1], seed) for seed in range(2))
        result[:1] = torch.maximum(result[:1], moved(one, other))
    return result


def _exact(
    interview: Interview, parts: dict[str, list[Tensor]], scores: dict[str, Tensor], room: Tensor, noise: Tensor
) -> tuple[bool, str]:
    """The verdict on a predictor that is not random, and what it rests on."""
    evidence = Exact(interview, scores["all"], room, noise)
    for trial in _trials(interview):
        if found := evidence.of_neighbours(trial.targets, partial(interview.both, trial), trial.what):
            return True, found
    if "example" in scores:
        again = parts["example"][-AGAIN:][::-1]
        targets = torch.cat(again).sort().values

        def twice() -> tuple[Tensor, Tensor]:
            return interview.rows(interview.fresh(), again[::-1]), interview.rows(interview.fresh(), again)

        if found := evidence.of_neighbours(targets, twice, "other targets came alone before"):
            return True, found
    for come in [come for come in COME if come in scores]:
        if found := evidence.of_sizes(parts[come], scores[come], COME[come]):
            return True, found
    return False, "no target's scores depend on the others by more than rounding"


def _by_chance(interview: Interview, room: Tensor) -> tuple[bool | None, str]:
    """The verdict on a random predictor, and what it rests on."""
    found = chance(interview, _trials(interview, thorough=False), room)
    if found.peeks:
        return True, f"scores depend on the other targets; p = {found.p:.1e}, false alarms: 1 in {1 / FALSE_ALARM:,.0f}"
    if found.undecided:
        return None, f"the noise leaves room for peeking; p = {found.p:.1e}, uncertain by {found.resolution:.1e}"
    return False, f"no dependence on the other targets beyond chance; p = {found.p:.1e}"


def _trials(interview: Interview, thorough: bool = True) -> list[Trial]:
    return trials(interview.targets, len(interview.pool), torch.Generator().manual_seed(0), thorough)


def _with_arrays(predict: Callable[..., Any]) -> Predict:
    """The predictor, given numpy arrays."""

    def with_arrays(context_x: Tensor, context_y: Tensor, target_x: Tensor) -> Any:
        return predict(*(x.cpu().numpy() for x in (context_x, context_y, target_x)))

    return with_arrays

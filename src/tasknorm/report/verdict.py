"""The answer of a comparison in sentences: which norm to use, what it costs, who peeks, and what would decide."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasknorm.durations import in_hours
from tasknorm.episode import TARGETS
from tasknorm.evaluation import seeds_needed
from tasknorm.settings import AS_IT_WAS

if TYPE_CHECKING:
    from tasknorm.report.comparison import Comparison

MOST_SEEDS = 20  # a difference that needs more is not worth the time
ARRIVE = {"all": "all at once", "example": "one by one", "class": "class by class"}


def sentences(found: Comparison) -> list[str]:
    """The verdict on a comparison."""
    said = _advice(found) if found.fair else []
    said += [_on_transductive(found, norm) for norm in found.transductive] + _undecided(found)
    return [_naming_the_network(sentence) for sentence in said]


def _naming_the_network(sentence: str) -> str:
    """A pretrained network as it was stands among the norms, and is none."""
    named = sentence.replace(AS_IT_WAS, f"the network {AS_IT_WAS}")
    return re.sub(r"(^|[.:] )the network", r"\1The network", named)


def _advice(found: Comparison) -> list[str]:
    first, *tied = found.best
    rounds, name = len(found.rounds), found.round_name
    score = found.accuracy(first)
    if rounds == 1:
        tasks = found.results[0][first]["all"].tasks
        return [
            f"{first} has the highest accuracy without peeking at other targets, {score} % over {tasks} tasks; but one "
            f"{name} cannot tell norms apart."
        ]
    if tied:
        largest = max(abs(found.difference(norm).percent) for norm in tied)
        advice = (
            f"Use {joined(found.best, 'or')}: {rounds} {name}s cannot tell them apart (they differ by up to "
            f"{largest:.1f} points). {first} has the highest accuracy, {score} %."
        )
    elif len(found.fair) == 1:
        advice = f"{first} reaches {score} %; no other norm that does not peek at other targets was compared."
    else:
        second = found.fair[1]
        gap = found.paired(first, second)
        advice = (
            f"Use {first}: with {score} % it is the best norm that does not peek at other targets, {gap} points better "
            f"than {second}."
        )
    return [advice, *_worse(found), _costs(found)]


def _worse(found: Comparison) -> list[str]:
    """Which norms are worse than the best, and by how much, if some were as good."""
    worse = [norm for norm in found.fair if norm not in found.best]
    if not worse or (len(found.best) == 1 and len(worse) == 1):
        return []
    points = [-found.difference(norm).percent for norm in worse]
    by = f"{points[0]:.1f} points" if len(worse) == 1 else f"{points[0]:.1f} to {points[-1]:.1f} points"
    verb = "is" if len(worse) == 1 else "are"
    return [f"{joined(worse, 'and')} {verb} worse than {found.reference}, by {by}."]


def _costs(found: Comparison) -> str:
    first = found.best[0]
    cost = found.cost(first)
    trained = f"{in_hours(cost.training)} to train and " if found.settings.iterations else ""
    words = f"{first} takes {trained}{cost.task:.1f} ms for a test task"
    cheapest = min(found.best, key=lambda norm: found.cost(norm).task)
    if cheapest != first:
        words += f"; {cheapest}, the fastest of these, {found.cost(cheapest).task:.1f} ms"
    return f"{words}."


def _on_transductive(found: Comparison, norm: str) -> str:
    each = ", ".join(f"{found.accuracy(norm, come)} % {ARRIVE[come]}" for come in TARGETS)
    points, come = found.fall(norm)
    hint = f" It looks {points:.1f} points better than it is if targets arrive {ARRIVE[come]}." if points > 0 else ""
    return f"{norm} peeks at the other targets: {each}.{hint}"


def _undecided(found: Comparison) -> list[str]:
    """The command that would decide, with its time, if the best norm is not known."""
    rounds = len(found.rounds)
    if len(found.best) < 2:
        return []
    if found.folds:
        folds = int((found.settings.fold or "0/0").split("/")[1])
        if rounds < folds:
            return [_command(found, folds, "More folds may tell")]
        return [
            f"The source has classes for {rounds} folds of {found.settings.way}-way tasks, too few to conclude more. "
            "Add classes to decide."
        ]
    if rounds == 1:
        return [_command(found, 3, "More seeds would tell")]
    needed = seeds_needed(found.differences(found.best[1]), MOST_SEEDS)
    if needed is None:
        first, second = found.best[:2]
        return [f"Even {MOST_SEEDS} seeds would hardly tell {first} from {second}: take whichever suits you."]
    return [_command(found, needed, "More seeds would tell")]


def _command(found: Comparison, seeds: int, why: str) -> str:
    seconds = found.round_seconds * (seeds - len(found.rounds))
    return f"{why}: `{found.command_for(seeds)}` goes on from here and takes about {in_hours(seconds)}."


def joined(names: Sequence[str], word: str) -> str:
    """Names as people list them.

    >>> joined(["LN", "IN", "GN"], "or")
    'LN, IN or GN'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"

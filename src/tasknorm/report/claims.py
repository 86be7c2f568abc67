"""The paper's claims, each with the rule by which it holds and what our runs show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tasknorm.report import checks
from tasknorm.report.checks import Finding
from tasknorm.report.render import Cell, Table, line
from tasknorm.runs import Record

MARKS = {"holds": "holds", "does not hold": "fails", "not tested": "untested"}
SIGNS = {"holds": "✓", "does not hold": "✗", "not tested": "○"}


@dataclass(frozen=True)
class Claim:
    """What the paper says, the rule by which it holds, and the check of that rule."""

    said: str
    rule: str
    check: Callable[[Sequence[Record]], Finding]


def _best(name: str, column: str) -> Callable[[Sequence[Record]], Finding]:
    return partial(checks.best_rank, name=name, column=column)


COLLAPSE = 0.75  # share of the accuracy with all targets at once
COLLAPSES = (
    f"In every setting, TBN's accuracy is less than {100 * COLLAPSE:.0f} % of its accuracy with all targets at once, "
    "and the two differ."
)
KEPT = 0.5  # share of the accuracy above chance
NEAR_ONE, LARGE = 0.9, 500  # a value of alpha; the size of the largest context in Meta-Dataset's test tasks
LAYERS = 0.75  # share of the feature extractor's layers
ZERO = 0.5  # a term of alpha's logit: if smaller, it moves alpha from 1/2 to 0.62 at most
ABOUT = 1.25  # largest ratio of seconds per iteration
TOLERANCE = 1e-10  # in double precision
RANK = "No other non-transductive norm has a lower average rank, over the rows that have all norms."
FORM = "No other form of alpha has a lower average rank, over the rows that have all forms."
CLAIMS = (
    Claim(
        "TBN collapses if targets come one example at a time",
        COLLAPSES,
        partial(checks.tbn_collapses, targets="example", share=COLLAPSE),
    ),
    Claim(
        "TBN collapses if targets come one class at a time",
        COLLAPSES,
        partial(checks.tbn_collapses, targets="class", share=COLLAPSE),
    ),
    Claim(
        "CBN and BRN fail with MAML",
        f"In every setting, the accuracy above chance of each is less than {100 * KEPT:.0f} % of that of the best "
        "other non-transductive norm.",
        partial(checks.running_averages_fail, share=KEPT),
    ),
    Claim("TaskNorm-I is the best non-transductive norm with MAML", RANK, _best("maml_results", "TaskNorm-I")),
    Claim(
        "TaskNorm-I is the best non-transductive norm with CNAPs on Meta-Dataset",
        RANK,
        _best("cnaps_meta_dataset", "TaskNorm-I"),
    ),
    Claim(
        "TaskNorm-I is the best non-transductive norm with ProtoNets on Meta-Dataset",
        RANK,
        _best("protonets_meta_dataset", "TaskNorm-I"),
    ),
    Claim(
        "Instance-based norms (LN, IN) converge slowest on Meta-Dataset",
        "Their mean training accuracies, over the iterations that all norms share, are the two lowest.",
        checks.instance_based_slowest,
    ),
    Claim(
        "TaskNorm converges faster than CBN",
        "TaskNorm-I has the higher mean training accuracy on Meta-Dataset, over the iterations that all norms share.",
        checks.faster_than_cbn,
    ),
    Claim(
        "ProtoNets is less sensitive to the norm than MAML",
        "In every setting that has all norms, their accuracies span a smaller range with ProtoNets than with MAML.",
        checks.protonets_less_sensitive,
    ),
    Claim(
        "alpha tends to 1 for large contexts",
        f"In at least {100 * LAYERS:.0f} % of the feature extractor's layers, alpha is at least {NEAR_ONE} for a "
        f"context of {LARGE} images.",
        partial(checks.alpha_tends_to_one, near_one=NEAR_ONE, context_size=LARGE, layers=LAYERS),
    ),
    Claim(
        "SCALE is not zero and OFFSET is about zero",
        f"|OFFSET| is below {ZERO} in at least {100 * LAYERS:.0f} % of the feature extractor's layers, and |SCALE| "
        f"times the mean context size is above {ZERO} in at least {100 * LAYERS:.0f} %. Only trainings long enough to "
        "move OFFSET that far count.",
        partial(checks.scale_matters, zero=ZERO, layers=LAYERS),
    ),
    Claim(
        "The shared, functional alpha is the best form with CNAPs",
        FORM,
        _best("parameterization_cnaps", "Functional/Shared"),
    ),
    Claim("The shared alpha is the best form with MAML", FORM, _best("parameterization_maml", "Independent/Shared")),
    Claim(
        "RN is TaskNorm-I with alpha = n / (n + 1)",
        f"Their outputs for targets differ by less than {TOLERANCE:.0e} in double precision. This needs no runs.",
        partial(checks.rn_is_special_case, tolerance=TOLERANCE),
    ),
    Claim(
        "An iteration with TaskNorm costs about as much as with CBN",
        f"The median ratio of seconds per iteration, TaskNorm-I to CBN, is at most {ABOUT}.",
        partial(checks.cost_about_cbn, about=ABOUT),
    ),
)


def findings(records: Sequence[Record]) -> list[tuple[Claim, Finding]]:
    """Every claim with what these records show."""
    return [(claim, claim.check(records)) for claim in CLAIMS]


def claims_table(found: Sequence[tuple[Claim, Finding]]) -> Table:
    """The claims as a table: what the paper says, the verdict, the rule, and the numbers."""
    lines = (
        line(
            [
                claim.said,
                Cell(f"{SIGNS[f.verdict]} {f.verdict}", f.verdict != "not tested", MARKS[f.verdict]),
                claim.rule,
                f.numbers,
            ]
        )
        for claim, f in found
    )
    headings = ("the paper says", "our runs", "it holds if", "the numbers")
    notes = (
        "Accuracies are in %. Two accuracies a and b with 95 % intervals ci_a and ci_b differ if "
        "|a - b| > sqrt(ci_a² + ci_b²). MAML's accuracies are those after the gradient step chosen on validation.",
        "Training accuracies, times and values of alpha have no intervals: each comes from a single training.",
    )
    return Table("claims", "The paper's claims, checked on our own runs", headings, tuple(lines), notes, words=4)

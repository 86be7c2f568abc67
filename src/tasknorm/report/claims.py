"""The paper's claims, each with its rule and what our runs say to it."""

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
    """What the paper says, when we say that it holds, and the check."""

    said: str
    rule: str
    check: Callable[[Sequence[Record]], Finding]


def _best(name: str, column: str) -> Callable[[Sequence[Record]], Finding]:
    return partial(checks.best_rank, name=name, column=column)


COLLAPSE = 0.75  # of the accuracy all at once
COLLAPSES = f"In every setting it differs from the accuracy all at once, and is less than {100 * COLLAPSE:.0f} % of it."
KEPT = 0.5  # of the accuracy above chance
NEAR_ONE, LARGE = 0.9, 500  # an alpha, and the largest context of Meta-Dataset's test tasks
LAYERS = 0.75  # of the feature extractor's
ZERO = 0.5  # in alpha's logit: less moves alpha from 1/2 to 0.62 at most
ABOUT = 1.25  # times as long
TOLERANCE = 1e-10  # in double precision
RANK = "No other norm that is not transductive has a lower average rank, over rows that have them all."
FORM = "No other form of alpha has a lower average rank, over rows that have them all."
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
        f"In every setting each keeps less than {100 * KEPT:.0f} % of the accuracy above chance that the best other "
        "norm has which is not transductive.",
        partial(checks.running_averages_fail, share=KEPT),
    ),
    Claim("TaskNorm-I is the best norm with MAML that is not transductive", RANK, _best("maml_results", "TaskNorm-I")),
    Claim(
        "TaskNorm-I is the best norm with CNAPs on Meta-Dataset that is not transductive",
        RANK,
        _best("cnaps_meta_dataset", "TaskNorm-I"),
    ),
    Claim(
        "TaskNorm-I is the best norm with ProtoNets on Meta-Dataset that is not transductive",
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
        "In every setting that has all norms, their accuracies span a smaller range with ProtoNets.",
        checks.protonets_less_sensitive,
    ),
    Claim(
        "alpha tends to 1 for large contexts",
        f"alpha is at least {NEAR_ONE} for a context of {LARGE} images, in {100 * LAYERS:.0f} % of the feature "
        "extractor's layers.",
        partial(checks.alpha_tends_to_one, near_one=NEAR_ONE, context_size=LARGE, layers=LAYERS),
    ),
    Claim(
        "SCALE is not zero and OFFSET is about zero",
        f"|OFFSET| is below {ZERO}, and |SCALE| times the mean context size above it, in {100 * LAYERS:.0f} % of the "
        "feature extractor's layers, after trainings that could have moved OFFSET that far.",
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
        f"Outputs for targets differ by less than {TOLERANCE:.0e} in double precision; needs no runs.",
        partial(checks.rn_is_special_case, tolerance=TOLERANCE),
    ),
    Claim(
        "An iteration with TaskNorm costs about as much as with CBN",
        f"The median ratio of seconds per iteration, TaskNorm-I to CBN, is at most {ABOUT}.",
        partial(checks.cost_about_cbn, about=ABOUT),
    ),
)


def findings(records: Sequence[Record]) -> list[tuple[Claim, Finding]]:
    """Every claim with what these records say to it."""
    return [(claim, claim.check(records)) for claim in CLAIMS]


def claims_table(found: Sequence[tuple[Claim, Finding]]) -> Table:
    """The claims as a table: what the paper says, verdict, rule, numbers."""
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
        "Accuracies in %, with 95 % intervals; a and b differ where |a - b| > sqrt(ci_a² + ci_b²). With MAML they are "
        "those after the gradient step chosen on validation.",
        "Curves, speeds and layers have no intervals: a single training each.",
    )
    return Table("claims", "The paper's claims, checked on our own runs", headings, tuple(lines), notes, words=4)

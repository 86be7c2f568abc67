"""The end of a comparison's page: all that is needed to make it again."""

from __future__ import annotations

import html as entities
from collections.abc import Sequence

from tasknorm.durations import in_hours
from tasknorm.report.comparison import Comparison


def how_made(comparisons: Sequence[Comparison]) -> str:
    """A section with the command, the versions, the seeds, the settings, and how the time was spent, as HTML."""
    first = comparisons[0]
    spent: dict[str, float] = {}
    for comparison in comparisons:
        for what, seconds in comparison.spent.items():
            spent[what] = spent.get(what, 0.0) + seconds
    total = sum(spent.values()) or 1.0
    facts = {
        "versions": ", ".join(f"{name} {version}" for name, version in first.versions.items()),
        f"{first.round_name}s": ", ".join(map(str, first.seeds)),
        "training": "; ".join(dict.fromkeys(map(_training, comparisons))),
        "data": first.settings.source.replace(",", ", "),
    }
    about = "".join(f"<dt>{name}</dt><dd>{entities.escape(words)}</dd>" for name, words in facts.items())
    shares = "".join(
        f'<span style="flex:{seconds / total:.4f};opacity:{1 - 0.75 * place / max(1, len(spent) - 1):.2f}"></span>'
        for place, seconds in enumerate(spent.values())
    )
    times = "".join(
        f"<dt>{entities.escape(name)}</dt><dd>{in_hours(seconds)}, {100 * seconds / total:.0f} %</dd>"
        for name, seconds in spent.items()
    )
    commands = "".join(
        f'<div class="command"><code>{command}</code>'
        f'<button type="button" data-copy="" data-text="{command}">Copy</button></div>'
        for command in dict.fromkeys(entities.escape(c.command) for c in comparisons)
    )
    return f"""<section id="made"><h2>How this was made</h2>
<div class="grid"><section><h3>The command</h3>{commands}<dl class="made">{about}</dl></section>
<section><h3>How the time was spent: {in_hours(total)}</h3>
<div class="shares" aria-hidden="true">{shares}</div><dl class="made">{times}</dl></section>
{"".join(map(_settings, comparisons))}</div></section>
"""


def _settings(comparison: Comparison) -> str:
    """The settings that all trainings of a comparison share."""
    records = comparison.records
    values = records[0].settings.values()
    shared = {
        name: value
        for name, value in values.items()
        if value not in (None, False) and all(record.settings.values().get(name) == value for record in records)
    }
    listed = "".join(f"<dt>{name}</dt><dd>{entities.escape(str(value))}</dd>" for name, value in shared.items())
    return (
        f'<section class="across"><details><summary>All settings of {entities.escape(comparison.learner)}</summary>'
        f'<dl class="made many">{listed}</dl></details></section>'
    )


def _training(comparison: Comparison) -> str:
    settings = comparison.settings
    if not settings.iterations:
        return f"{comparison.learner}: none, the network is pretrained"
    tasks = f"{settings.meta_batch} task{'s' if settings.meta_batch > 1 else ''}"
    return f"{comparison.learner}: {settings.iterations:,} iterations of {tasks}"

"""Reproduce one cell of a table of the paper: MAML with TaskNorm-I on Omniglot, 5-way, 1-shot."""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from tasknorm.grid import experiment
from tasknorm.report import published_tables
from tasknorm.runs import read_record, run_of
from tasknorm.settings import Settings

WHOLE = False  # True: Omniglot and the length of `--scale cpu`, half an hour on one core

# %% [markdown]
# Every table and figure of the paper is a file of settings that ships with the package. This is the table, and the
# cell that we want to see again:

# %%
table = experiment("maml_results")
print(table.title)
print(f"Expect: {table.expect}")
published = published_tables()["maml_results"].rows["Omniglot-5-1"]
print(f"\nIn the paper, TaskNorm-I has {published['TaskNorm-I']} %.")

# %% [markdown]
# The run behind the cell, at the paper's scale and at that of two cores. What differs between them:

# %%
NAME = "maml-omniglot-5-1-TaskNorm-I"
scales = {
    scale: next(run.settings for run in table.runs(scale, Path("runs")) if run.name == NAME)
    for scale in ("paper", "cpu")
}
paper, cpu = (scales[scale].values() for scale in ("paper", "cpu"))
for name, value in cpu.items():
    if value != paper[name]:
        print(f"{name}: {value}, in the paper {paper[name]}")
shown = ("meta_batch", "inner_steps", "inner_lr", "train_targets", "test_steps", "alpha", "eps")
print("the same in both:", ", ".join(f"{name} {cpu[name]}" for name in shown if cpu[name] == paper[name]))

# %% [markdown]
# This page has to be made in seconds, without a download. So it goes on with far fewer iterations of a smaller network,
# and with `glyphs`, printed characters that come with the package, in place of Omniglot. The number below is therefore
# *not* a reproduction; with `WHOLE = True` it is, and so is `tasknorm reproduce maml_results --scale cpu`, which does
# all cells of the table ([ours, beside the paper's](../results/report/report.md)).

# %%
short = {
    "source": "glyphs", "filters": 16, "iterations": 60, "meta_batch": 8, "learning_rate": 0.01, "test_steps": 3,
    "validate_every": 20, "validation_tasks": 20, "test_tasks": 50,
}  # fmt: skip
settings = scales["cpu"] if WHOLE else Settings.of(cpu | short | {"device": "cpu", "workers": 0})

with tempfile.TemporaryDirectory() as folder:
    run_of(settings, Path(folder) / NAME).do()
    record = read_record(Path(folder) / NAME)
for result in record.results:
    print(result)

# %%
curve, validation = record.result["curve"], record.result["validation"]
figure, axes = plt.subplots(1, 2, figsize=(7, 2.6), layout="constrained")
axes[0].plot(curve["iteration"], curve["loss"], linewidth=1)
axes[0].set(xlabel="iteration", ylabel="training loss")
found = record.chosen()[0].accuracy
bars = {"in the paper,\nOmniglot": published["TaskNorm-I"], f"here,\n{settings.source}": found}
heights, errors = [bar.percent for bar in bars.values()], [100 * bar.interval for bar in bars.values()]
axes[1].bar(list(bars), heights, yerr=errors, width=0.5, color=["silver", "C0"], capsize=4)
axes[1].axhline(20, color="black", linewidth=0.8, linestyle=":")
axes[1].set(ylabel="accuracy, %", ylim=(0, 100))
plt.show()

# %% [markdown]
# The dotted line is chance. MAML takes the inner step that was best on validation tasks; the paper takes the one that
# was best on the test tasks themselves, which is a little higher:

# %%
print(f"as the paper counts: {record.chosen()[0].maximum} %")

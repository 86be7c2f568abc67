"""The drawing model of `tasknorm play`, from its training to the browser: a learner that learns in a web page."""

# %%
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

from tasknorm.data import Pixels
from tasknorm.play import embedded, of_run, prepared_drawing, write_static
from tasknorm.runs import run_of
from tasknorm.settings import Settings

kept = tempfile.TemporaryDirectory()
folder = Path(kept.name)

# %% [markdown]
# ## Training
#
# The page's learner is ProtoNets on Conv-4 with TaskNorm-I, trained on `glyphs`, printed characters of 26 scripts, with
# tasks of varying size. The one that ships had 1,200 iterations with 32 filters, which take nine minutes; here are 60.

# %%
settings = Settings.of(
    {
        "learner": "protonets", "source": "glyphs", "norm": "TaskNorm-I", "alpha": "functional-shared",
        "net": "protonets-conv4", "filters": 16, "sampling": "variable", "max_way": 10, "max_context": 30,
        "train_targets": 5, "targets": 5, "meta_batch": 2, "reduction": "mean", "scale": "unit", "image_size": 28,
        "learning_rate": 0.004, "iterations": 60, "validate_every": 20, "validation_tasks": 10, "test_tasks": 0,
        "test_max_way": 10, "test_max_context": 30, "workers": 0, "device": "cpu",
    }
)  # fmt: skip
curve = run_of(settings, folder / "run").do()["curve"]

figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
axis.plot(curve["iteration"], curve["loss"], linewidth=1)
axis.set(xlabel="iteration", ylabel="loss")
plt.show()

# %% [markdown]
# ## The graph, and the page
#
# ProtoNets learns a task by forward passes alone, so learning itself becomes one ONNX graph: context images, labels and
# targets go in, scores come out, for tasks of any size. `write_static` writes the page with the graph inside, for any
# web host. To compute in the browser it also needs onnxruntime-web, which `tasknorm play --fetch-runtime` fetches once.

# %%
playable = of_run(folder / "run", for_browser=True)
write_static(playable, folder / "page")
for path in sorted((folder / "page").rglob("*")):
    if path.suffix in (".html", ".json", ".onnx"):
        print(path.relative_to(folder / "page").as_posix())
about = json.loads((folder / "page" / "models.json").read_text())
print("the page prepares images thus:", about["preparation"])

# %% [markdown]
# ## Drawings
#
# Three made-up characters, drawn by an unsteady hand: one example of each, and three targets of each. They are cut out,
# scaled and centred as the page does it.

# %%
CHARACTERS = [
    [[(0, 0), (0, 9), (6, 9)], [(0, 4), (5, 4)]],
    [[(0, 9), (4, 0), (8, 9)], [(4, 0), (4, 9)]],
    [[(1, 1), (8, 1), (8, 8), (1, 8), (1, 1)], [(1, 1), (8, 8)]],
]


def drawn(character: int, hand: int) -> Pixels:
    """A drawing as the learners take it, uint8 `(28, 28)`."""
    random = np.random.default_rng([character, hand])
    canvas = Image.new("L", (140, 140), 255)
    for stroke in CHARACTERS[character]:
        points = 20 + 11 * (np.array(stroke) + random.normal(0, 0.4, (len(stroke), 2)))
        ImageDraw.Draw(canvas).line([(float(x), float(y)) for x, y in points], fill=0, width=6, joint="curve")
    return prepared_drawing(np.asarray(canvas))


context = np.stack([drawn(character, 0) for character in range(3)])
targets = np.stack([drawn(character, hand) for character in range(3) for hand in (1, 2, 3)])

# %% [markdown]
# The browser runs the graph in WebAssembly; the same runtime is there for Python. First the learner of a minute ago,
# then the one that ships with the package.


# %%
def answers(graph: bytes) -> list[int]:
    """The class of each target, by a learner that sees the three examples for the first time."""
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    images = [drawings[:, None].astype(np.float32) / 255 for drawings in (context, targets)]
    given = {"context_images": images[0], "labels": np.eye(3, dtype=np.float32), "target_images": images[1]}
    (logits,) = session.run(["logits"], given)
    return [int(label) for label in logits.argmax(1)]


graphs = {"trained above": playable.models[0].onnx, "as it ships": embedded().models[0].onnx}
truth = [character for character in range(3) for _ in range(3)]
for words, graph in graphs.items():
    assert graph is not None
    found = answers(graph)
    correct = sum(a == b for a, b in zip(found, truth, strict=True))
    print(f"{words}: {correct} of {len(found)} drawings are recognised from one example each")

# %%
figure, axes = plt.subplots(3, 4, figsize=(4.4, 3.4), layout="constrained")
for row in range(3):
    for axis, drawing in zip(axes[row], [context[row], *targets[3 * row : 3 * row + 3]], strict=True):
        axis.imshow(255 - drawing, cmap="gray")
        axis.set(xticks=[], yticks=[])
    for axis, label in zip(axes[row, 1:], found[3 * row : 3 * row + 3], strict=True):
        axis.set_xlabel(f"class {label}", fontsize=8)
    axes[row, 0].set_ylabel(f"class {row}", fontsize=8)
axes[0, 0].set_title("example", fontsize=9)
axes[0, 2].set_title("targets, with the answer of the learner that ships", fontsize=9)
plt.show()

# %% [markdown]
# In the browser, with your own hand: `tasknorm play --run RUN` opens the page with a run of yours, `tasknorm play` with
# the learners that ship ([how it works](../docs/play.md)).

# %%
kept.cleanup()

"""Your own photos end to end: from folders of images to a file that tells new classes apart."""

# %%
import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from tasknorm.data import bad_images, opened, sheet
from tasknorm.learners import Predictor
from tasknorm.runs import adapted, run_of
from tasknorm.settings import Settings

kept = tempfile.TemporaryDirectory()  # a folder for all that follows; yours is wherever your photos are
folder = Path(kept.name)

# %% [markdown]
# ## The photos
#
# One folder for each class, with JPEG, PNG or whatever else Pillow reads, of any size. If you have none at hand, these
# will do: characters in colours. `photos` is what the learner is trained on; `birds` stands for the classes that you
# want to tell apart in the end, of which a few images are enough.

# %%
glyphs = opened("glyphs")
for name, classes in {"photos": range(24), "birds": range(30, 34)}.items():
    for number in classes:
        (folder / name / f"class{number:02}").mkdir(parents=True)
        for i in range(12):
            ink = glyphs.image(number * 7, i)[:, :, 0]
            colour = np.random.default_rng([number, i]).uniform(0.2, 1, 3)
            image = Image.fromarray((255 - ink[:, :, None] * colour).astype(np.uint8)).resize((48, 48))
            image.save(folder / name / f"class{number:02}" / f"{i}.jpg")

# %% [markdown]
# A learner is tested on classes that it was not trained on. A file `splits.json` beside the folder says which are
# which; without it, 70 % of the classes are for training, 15 % for validation and 15 % for the test.

# %%
names = sorted(path.name for path in (folder / "photos").iterdir())
splits = {"train": names[:16], "valid": names[16:], "test": []}
(folder / "splits.json").write_text(json.dumps(splits))

source = opened(f"folder:{folder / 'photos'}")
print(f"{len(list(bad_images(source)))} images cannot be read")
figure, axis = plt.subplots(figsize=(6, 2.6), dpi=72, layout="constrained")
axis.imshow(sheet(source, "train", classes=4, images=8))
axis.axis("off")
plt.show()

# %% [markdown]
# ## Training
#
# A few seconds of it. For real, leave out `filters`, `iterations` and what has to do with validation, which then take
# the values of the paper, and choose an `image_size` at which you could still tell the classes apart. The same as a
# command: `tasknorm train --source folder:photos --norm TaskNorm-I ...`.

# %%
settings = Settings.of(
    {
        "learner": "protonets", "norm": "TaskNorm-I", "source": f"folder:{folder / 'photos'}", "image_size": 28,
        "way": 4, "shot": 3, "train_way": 5, "targets": 3, "train_targets": 3, "filters": 16, "iterations": 40,
        "validate_every": 10, "validation_tasks": 10, "test_tasks": 0, "device": "cpu",
    }
)  # fmt: skip
curve = run_of(settings, folder / "run").do()["curve"]

figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
axis.plot(curve["iteration"], curve["loss"], linewidth=1)
axis.set(xlabel="task", ylabel="loss")
plt.show()

# %% [markdown]
# ## Classes of your own
#
# To adapt takes no training: the network looks at six images of each class once. The file holds everything that
# predictions need: the network, the moments of the context, the names, and how images are prepared.

# %%
birds = {path.name: sorted(path.iterdir()) for path in sorted((folder / "birds").iterdir())}
predictor = adapted(folder / "run", {name: photos[:6] for name, photos in birds.items()})
predictor.save(folder / "birds.safetensors")

predictor = Predictor.load(folder / "birds.safetensors")
asked = [photo for photos in birds.values() for photo in photos[6:9]]
answers = predictor.classify(asked)
correct = sum(answer.name == photo.parent.name for photo, answer in zip(asked, answers, strict=True))
print(f"{correct} of {len(asked)} photos that it had not seen are classified correctly")

figure, axes = plt.subplots(2, 6, figsize=(7, 3), dpi=72, layout="constrained")
for axis, photo, answer in zip(axes.flat, asked, answers, strict=True):
    axis.imshow(Image.open(photo))
    axis.set_title(f"{answer.name or 'none of these'}\n{answer.probability:.0%}", fontsize=8)
    axis.axis("off")
plt.show()

# %% [markdown]
# One class more, later, without training:

# %%
predictor.add("class23", sorted((folder / "photos" / "class23").iterdir())[:6])
(answer,) = predictor.classify([folder / "photos" / "class23" / "11.jpg"], none_below=0)
print(f"{len(predictor.names or ())} classes now; a photo of class23 is taken for {answer.name}")
kept.cleanup()

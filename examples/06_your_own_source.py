"""A source of your own: any object that gives image i of class c. Here a class is a grating of one angle and width."""

# %%
import math

import matplotlib.pyplot as plt
import numpy as np

from tasknorm.data import Cached, Episodes, Pixels, VariableSampler, bilinear, plain_spec

DIRECTIONS, WIDTHS, IMAGES = 12, 4, 30


# %%
class Gratings:
    """Grey stripes; images of a class differ by their shift and by noise."""

    origin = "computed"
    channels = 1
    resize = staticmethod(bilinear)

    def __init__(self) -> None:
        names = [f"direction {d}, width {w}" for d in range(DIRECTIONS) for w in range(WIDTHS)]
        train, valid, test = names[:28], names[28:38], names[38:]
        splits = {"train": train, "valid": valid, "test": test}
        self.spec = plain_spec("gratings", {split: dict.fromkeys(part, IMAGES) for split, part in splits.items()})

    def image(self, class_id: int, number: int) -> Pixels:
        """Image `number` of a class, uint8 `(height, width, channels)`."""
        direction, width = divmod(class_id, WIDTHS)
        random = np.random.default_rng([class_id, number])
        rows, columns = np.mgrid[:32, :32]
        angle = math.pi * direction / DIRECTIONS
        waves = (rows * math.sin(angle) + columns * math.cos(angle)) / (2 + width) + random.uniform(0, 6)
        grey = 128 + 60 * np.sin(waves) + random.normal(0, 20, rows.shape)
        pixels: Pixels = grey.clip(0, 255).astype(np.uint8)
        return pixels[:, :, None]

    def where(self, class_id: int, number: int) -> str:
        """Where the image comes from, for messages."""
        return f"{self.spec.class_names[class_id]}, image {number}"

    def fingerprint(self) -> str:
        """A text that changes whenever the images do, so that an old cache is not used."""
        return "gratings 1"


# %% [markdown]
# The first image of some classes:

# %%
gratings = Gratings()
figure, axes = plt.subplots(2, 6, figsize=(7, 2.6), layout="constrained")
for place, axis in enumerate(axes.flat):
    class_id = 4 * place + place % WIDTHS
    axis.imshow(gratings.image(class_id, 0), cmap="gray", vmin=0, vmax=255)
    axis.set_title(gratings.spec.class_names[class_id], fontsize=6)
    axis.axis("off")
plt.show()

# %% [markdown]
# Cached, it gives episodes like every other source; here of a varying number of classes and images.

# %%
images = Cached(gratings, size=28)
episodes = Episodes(images, VariableSampler(images.spec.splits["train"]), seed=0)
for number in range(3):
    episode = episodes[number]
    print(f"episode {number}: {episode.way} ways, {len(episode.context_x)} context and {len(episode.target_x)} targets")

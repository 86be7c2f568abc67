"""A learner adapted to one task: classifies targets when they come, one at a time if need be."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tasknorm.data import Pictures, Preparation, Prepared, listed_pictures
from tasknorm.errors import DataError, WeightsError
from tasknorm.learners.adapted import Adapted, checked_names, class_pixels
from tasknorm.learners.answer import Answer
from tasknorm.learners.calibration import Calibration
from tasknorm.learners.export import export
from tasknorm.learners.phases import targets_for_life
from tasknorm.learners.predictor_file import read_predictor, write_predictor
from tasknorm.learners.tasks import for_net

SAID = ("learner", "preparation", "calibration", "calibration_together")
AT_ONCE = 128  # images that pass together where they do not influence each other


class Predictor(nn.Module):
    """A net with its task's weights and context moments, the task's linear classifier, and all that using it needs.

    It has learned: it stays in `eval()` and in its target phase, also as a copy, so that any number of threads may call
    it at once, also while one adds examples.

    Args:
        net: the adapted net, which has seen the context; the predictor keeps it, in `eval()`, in its target phase and
            without gradients. For another context, take a copy (`copy.deepcopy(predictor.net)`), which is in no phase.
        weight, bias: of the linear classifier on the net's features, `(way, features)` and `(way,)`; None if the net
            has a classifier of its own.

    Attributes:
        preparation: what happens to images before the net sees them; None if it is unknown.
        calibration: how logits become probabilities.
        calibration_together: the same for a transductive predictor's answers to several images at once.
        learner: label of the learner, such as "ProtoNets"; None if it is unknown.
    """

    def __init__(self, net: nn.Module, weight: Tensor | None = None, bias: Tensor | None = None) -> None:
        self._begin(Adapted(net, weight, bias))

    def _begin(self, adapted: Adapted) -> None:
        super().__init__()
        self.adapted = adapted  # the one attribute that `add` replaces, as a whole
        self.preparation: Preparation | None = None
        self.calibration = Calibration()
        self.calibration_together = Calibration()
        self.learner: str | None = None
        self._adding = threading.Lock()
        super().train(False)

    @property
    def net(self) -> nn.Module:
        """The adapted net."""
        return self.adapted.net

    @property
    def weight(self) -> Tensor | None:
        """Weights of the linear classifier, `(way, features)`."""
        return self.adapted.weight

    @property
    def bias(self) -> Tensor | None:
        """Biases of the linear classifier, `(way,)`."""
        return self.adapted.bias

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes in the order of the logits; numbers unless others were given."""
        return self.adapted.names

    @names.setter
    def names(self, names: Sequence[str]) -> None:
        self.adapted.names = checked_names(names, self.adapted.way)

    @property
    def label(self) -> str:
        """ "transductive" if an answer may depend on the other images of a call, else "non-transductive"."""
        return self.adapted.label

    @property
    def context(self) -> dict[str, Tensor] | None:
        """The images that it learned from by class, bytes `(images, channels, size, size)`; None if it forgot them."""
        adapted = self.adapted
        if adapted.kept is None:
            return None
        images, labels = adapted.kept.images, adapted.kept.labels
        return {name: images[labels == number] for number, name in enumerate(adapted.names)}

    def forward(self, target_x: Tensor) -> Tensor:
        """Logits `(target, way)` of images `(target, ...)`: floats, scaled as in training; a numpy array will do.

        Raises:
            ValueError: if they have another shape than the net's, or are bytes or numbers from 0 to 255.
        """
        logits: Tensor = self.adapted(target_x)
        return logits

    def in_sets(self, target_x: Tensor, sets: int) -> Tensor:
        """As `forward`, for several target sets of equal size, end to end: each as if it had come alone."""
        return self.adapted.in_sets(target_x, sets)

    @torch.no_grad()
    def predict(self, target_x: Tensor) -> Tensor:
        """The class of each image, `(target,)`."""
        logits: Tensor = self(target_x)
        return logits.argmax(1)

    @torch.no_grad()
    def classify(self, images: Pictures, *, together: bool = False, none_below: float | None = None) -> list[Answer]:
        """The class of each image with its probability.

        Args:
            images: a list of paths, bytes of image files, Pillow images, arrays or tensors (see `Preparation`).
            together: let a transductive predictor see all images at once; otherwise each answer is that to the image
                alone.
            none_below: answer "none of these" if the largest probability is smaller; 0 for never; the threshold that
                was chosen on validation tasks if left out.

        Raises:
            DataError: if an image cannot be read; names it. If the predictor does not know how images are prepared.
            WeightsError: if logits are not finite.
        """
        adapted, preparation = self.adapted, self.known_preparation
        pictures = images if isinstance(images, Prepared) else listed_pictures(images)
        calibration = self.calibration_together if together else self.calibration
        step = max(1, len(pictures)) if together else AT_ONCE
        answers: list[Answer] = []
        for start in range(0, len(pictures), step):
            prepared = for_net(adapted.net, preparation(pictures[start : start + step]))
            apart = not together and adapted.label == "transductive"
            logits = adapted.in_sets(prepared, len(prepared)) if apart else adapted(prepared)
            if not logits.isfinite().all():
                raise WeightsError("the net's logits are not finite numbers; its file is damaged, adapt again")
            names = adapted.names or tuple(map(str, range(logits.shape[1])))
            threshold = calibration.threshold_for(len(names)) if none_below is None else none_below
            answers += [Answer.of(names, row, threshold) for row in calibration.probabilities(logits)]
        return answers

    def add(self, name: str, images: Pictures) -> Predictor:
        """Add examples of a class, known or new; the predictor is then as if it had had them from the start.

        Args:
            name: of the class.
            images: as for `classify`.

        Returns:
            The predictor itself.

        Raises:
            DataError: if it forgot its context, or its learner cannot learn a task again; the predictor then stays as
                it was.
        """
        return self.extend({name: images})

    def extend(self, context: Mapping[str, Pictures]) -> Predictor:
        """As `add`, for images of several classes by name: the task is learned again once."""
        with self._adding:  # whoever calls the predictor meanwhile gets the answers from before
            adapted = self.adapted
            if adapted.kept is None:
                raise DataError(self._why_nothing_is_added())
            preparation = self.known_preparation
            pixels = class_pixels(context, preparation)
            names = checked_names((*adapted.names, *(name for name in pixels if name not in adapted.names)))
            labels = [torch.full((len(images),), names.index(name)) for name, images in pixels.items()]
            if pixels:
                more = torch.cat(list(pixels.values()))
                self.adapted = adapted.kept.with_more(names, more, torch.cat(labels), preparation)
        return self

    def _why_nothing_is_added(self) -> str:
        if self.learner == "MAML":
            return (
                "a predictor of MAML takes no more examples: it learned by gradient steps from initial weights, which "
                "it does not hold; adapt again with all examples"
            )
        return (
            "adding examples needs the context that the predictor learned from, and it holds none; adapt again with "
            "all examples, by `tasknorm adapt` without --forget or by Learner.adapt_to"
        )

    @property
    def known_preparation(self) -> Preparation:
        """The preparation.

        Raises:
            DataError: if it is unknown.
        """
        if self.preparation is None:
            raise DataError(
                "this predictor does not know how images are prepared; set predictor.preparation, or pass prepared "
                "tensors to the predictor itself"
            )
        return self.preparation

    def train(self, mode: bool = True) -> Predictor:
        """Change nothing: in training, targets would be normalised with each other and move running moments."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """For copy and pickle, which cannot copy a lock."""
        return {name: value for name, value in self.__dict__.items() if name != "_adding"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """For copy and pickle, which take a norm out of its phase."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        targets_for_life(self.net)
        self._adding = threading.Lock()

    def save(self, file: str | Path) -> None:
        """Write all that the predictor holds to a safetensors file, whole or not at all."""
        write_predictor(Path(file), self.adapted, {name: getattr(self, name) for name in SAID})

    @classmethod
    def load(cls, file: str | Path, net: nn.Module | str | None = None) -> Predictor:
        """The predictor of a file that `save` wrote.

        Args:
            file: its path.
            net: a net of the same make, whose weights are replaced, or the name of a network of others, such as
                `package.module:function`. Needed only if the file does not say how its net is made, if it was written
                by version 0.1, or if its net is made by a function of yours: a file alone never calls one.

        Raises:
            WeightsError: if the file is damaged or no predictor, or is of another net or another norm; the net then
                stays as it was.
        """
        adapted, about = read_predictor(Path(file), net)
        predictor = cls.__new__(cls)
        predictor._begin(adapted)
        for name in SAID if about is not None else ():
            setattr(predictor, name, getattr(about, name))
        return predictor

    def export(self, file: str | Path, example: Tensor | None = None) -> None:
        """Write the predictor as a program of its own, which needs no Python class: by `torch.export`, or as ONNX.

        Args:
            file: ends in `.pt2` (load with `torch.export.load(file).module()`) or `.onnx` (needs the extra
                `tasknorm[onnx]`). The program takes prepared images in batches of any size and gives logits. Names,
                preparation, temperature and threshold are inside, as the JSON entry "tasknorm".
            example: some images `(target, ...)`, at least two, on which the program is compared with the predictor;
                noise if left out.

        Raises:
            DataError: if the name ends otherwise or there are too few images.
            RuntimeError: if the program's logits are not the predictor's.
        """
        export(self, Path(file), example)

"""Every setting of a training; each is a key of config files and a flag of `tasknorm train`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from tasknorm.data import AUGMENTATIONS, LARGEST_SIDE, ResizeName, Scale
from tasknorm.episode import TARGETS
from tasknorm.errors import SettingsError, one_line, short
from tasknorm.learners import LEARNERS, Asked, Learner, OwnSettings
from tasknorm.nets import NETS, is_backbone
from tasknorm.norms import ALPHAS, NORMS, TaskNorm
from tasknorm.settings.config import FOLD, RESIZE, SCALE, Fold, Names, about, choice_error, in_words, joined
from tasknorm.settings.papers import papers_settings

AS_IT_WAS = "as it was"  # weights of the pretrained network, untouched
START = "start"  # weights of the norm before training
SHARED = ("TBN", "CBN", "RN")  # these norms share one meta-training, with CBN (section 5)


class Settings(BaseModel):
    """All settings of one training. `Settings.of` fills in the papers' values; `values` is what a config file holds.

    Settings that only one learner has (`Learner.own_settings`) are in `own`; in config files and flags they stand next
    to the others.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    length_name: ClassVar[str] = "iterations"

    # What is trained
    learner: str = Field(description=f"The few-shot learner: {', '.join(LEARNERS)}.")
    source: Names = Field(
        "glyphs",
        description="Data set name, path, or folder:PATH; separate several by commas, and each task uses one of them.",
    )
    norm: str = Field(
        "TaskNorm-I", description="Label of the norm, as in the paper. TBN and RN share the training of CBN."
    )
    net: str = Field(
        description=f"The network: {', '.join(NETS)}; package.module:function for one that a function returns; or "
        "hf:FOLDER for one of transformers."
    )
    pretrained: str | None = about(
        "File with the net's pretrained weights: of `tasknorm pretrain`, or CNAPs' pretrained_resnet.pt.tar; "
        ".safetensors or .pth for networks of others."
    )
    norm_start: Literal["paper", "preserve"] = Field(
        "paper",
        description="Where norms start: as in the paper, or near what a pretrained network computes (preserve).",
    )
    running: Literal["moving", "fixed"] = Field(
        "moving", description="Whether meta-training moves the running moments, or leaves those of pretraining (fixed)."
    )
    tuned: Literal["all", "small"] = Field(
        "all",
        description="What is trained: all, or what is small alone: gamma, beta, alpha, a temperature, generators.",
    )
    as_it_was: bool = Field(
        False, description="Let the pretrained network as it was, and the norm at its start, compete on validation."
    )
    filters: int | None = about("Channels of the net's blocks. Default: the net's own number.", ge=1)
    affine: Literal["all", "offset", "none"] = Field(
        "all", description="What norms learn: gamma and beta (all), beta alone (offset), or neither (none)."
    )
    eps: float = Field(
        1e-5, gt=0, description="Number added to the variance in norms; a network of others keeps its own."
    )
    unbiased: bool = Field(
        False, description="Divide variances by count - 1, as the authors' released code does, not by the count."
    )
    momentum: float = Field(
        0.1, gt=0, le=1, description="Weight of the newest batch in running moments; a network of others keeps its own."
    )
    alpha: str | None = about(f"The form of TaskNorm's alpha: {', '.join(ALPHAS)}.")
    schedule: int | None = about(
        "BRN: number of updates until its bounds are fully open; an iteration makes two updates.", ge=0
    )

    # Tasks
    sampling: Literal["fixed", "variable"] = Field(
        "fixed", description="Tasks of one fixed shape, or of variable way and shot as in Meta-Dataset."
    )
    way: int = Field(5, ge=2, description="Number of classes in a task at meta-test.")
    shot: int = Field(1, ge=1, description="Number of context images for each class.")
    targets: int = Field(ge=1, description="Number of target images for each class at meta-test.")
    train_way: int = Field(ge=2, description="Number of classes in a task at meta-train.")
    train_targets: int = Field(ge=1, description="Number of target images for each class at meta-train.")
    image_size: int = Field(ge=1, le=LARGEST_SIDE, description="Height and width of the images, in pixels.")
    resize: ResizeName | None = about(RESIZE)
    scale: Scale = Field("unit", description=SCALE)
    augment: Names | None = about(
        f"Random changes of training images, separated by commas: {', '.join(AUGMENTATIONS)}. Default: none."
    )
    colour: bool = Field(
        False, description="Give the net images of 3 channels even if no source has colour, as for pretrained weights."
    )
    rotate: bool = Field(False, description="Rotate each class of a task by a random multiple of 90 degrees.")
    skip_bad: bool = Field(
        False, description="Leave out images that cannot be read and classes too small for a task, and list them."
    )
    fold: Fold | None = about(FOLD)
    max_way: int = Field(40, ge=5, description="Largest number of classes in a variable task at meta-train.")
    max_context: int = Field(
        400, ge=5, description="Largest number of context images in a variable task at meta-train."
    )
    test_max_way: int = Field(50, ge=5, description="Largest number of classes in a variable task at meta-test.")
    test_max_context: int = Field(
        500, ge=5, description="Largest number of context images in a variable task at meta-test."
    )

    # The learner
    own: SerializeAsAny[OwnSettings] = Field(OwnSettings(), description="The settings that this learner alone has.")

    # The loop
    iterations: int = Field(ge=0, description="Number of optimizer steps; 0 for a learner without meta-training.")
    meta_batch: int = Field(ge=1, description="Number of tasks in each optimizer step.")
    accumulate: int = Field(
        1, ge=1, description="Number of parts into which the tasks of a step are split; more parts need less memory."
    )
    learning_rate: float = Field(gt=0, description="Adam's learning rate.")
    halve_every: int = Field(
        0, ge=0, description="Number of iterations after which the learning rate is halved; 0 for never."
    )
    clip: float | None = about("Largest absolute value of each element of the gradient.", gt=0)
    recompute: bool = Field(
        False, description="Recompute activations in the backward pass instead of keeping them, to save memory."
    )
    chunk: int | None = about(
        "Number of images that pass through the nets at a time, so that large contexts need little memory, and less "
        "with `recompute`; results differ by rounding alone. Default: all at once.",
        ge=1,
    )
    bf16: bool = Field(False, description="Compute in bfloat16 where that is safe.")
    compile: bool = Field(False, description="Compile the net with torch.compile; takes about a minute at the start.")
    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="Device to compute on.")
    workers: int = Field(1, ge=0, description="Number of threads that prepare tasks in advance.")
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the initial weights and the tasks.")

    # Validation, test, records
    validate_every: int = Field(500, ge=0, description="Number of iterations between validations; 0 for no validation.")
    validation_sources: Names | None = about(
        "Data sets to validate on, separated by commas. Default: the training sources that have validation classes."
    )
    validation_tasks: int = Field(
        100, ge=0, description="Number of validation tasks for each source; always the same tasks. 0 for none."
    )
    test_tasks: int = Field(600, ge=0, description="Number of test tasks for each source at the end; 0 for no test.")
    test_sources: Names | None = about("Data sets to test on, separated by commas. Default: the training sources.")
    test_seed: int = Field(0, ge=0, lt=2**63, description="Seed of the test tasks.")
    test_weights: Literal["both", "final", "best", "all"] = Field(
        "both",
        description="Which weights are tested: the final ones, the best by validation, or both; all adds the "
        "pretrained network as it was and the norm at its start.",
    )
    test_ways: Names | None = about("Numbers of classes in test tasks, separated by commas. Default: `way`.")
    test_targets: Names = Field(
        "all",
        description="How test targets arrive: all at once (all), one by one (example) or class by class (class); "
        "separate several by commas.",
    )
    skip_proven: bool = Field(
        False,
        description="Test one by one and class by class only where the audit does not prove that it changes nothing.",
    )
    checkpoint_every: int = Field(100, ge=1, description="Number of iterations between checkpoints.")
    tensorboard: bool = Field(False, description="Also log for TensorBoard; needs tasknorm[tensorboard].")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The given settings, and the papers' for the rest.

        Raises:
            SettingsError: names the setting that is unknown, wrong, or contradicts another.

        >>> Settings.of({"learner": "maml", "source": "omniglot", "way": 20}).own.inner_lr
        0.1
        """
        given = {key: value for key, value in given.items() if value is not None}
        named: dict[str, Any] = DEFAULTS | given
        for key in ("learner", "norm", "source"):
            _check_text(key, named[key])
        own = _own_settings(named["learner"])
        alien = {key: learner for key, learner in _owners().items() if key in given and key not in own.model_fields}
        for key, learner in alien.items():
            raise SettingsError(
                f"{key}={one_line(str(given[key]))} is a setting of {learner}, and the learner is "
                f"{short(named['learner'])[1:-1]}; leave {key} out"
            )
        values = papers_settings(named["learner"], _asked(named)) | named
        try:
            mine = {key: values.pop(key) for key in list(values) if key in own.model_fields}
            made = cls(**values, own=own(**mine))
        except ValidationError as error:
            errors = error.errors()
            # Missing settings are left out beside another error: they only follow from it, as with an unknown learner.
            wrong = [e for e in errors if e["type"] != "missing"] or errors
            raise SettingsError("; ".join(in_words(e, cls.fields()) for e in wrong)) from None
        if made.norm != "BRN" or made.schedule is not None:
            return made
        return made.model_copy(update={"schedule": min(40_000, 2 * made.iterations)})  # the same if the run is extended

    @classmethod
    def fields(cls) -> dict[str, FieldInfo]:
        """Every setting by name, with those of each learner."""
        common = {name: field for name, field in cls.model_fields.items() if name != "own"}
        return common | {name: f for kind in LEARNERS.values() for name, f in kind.own_settings.model_fields.items()}

    def values(self) -> dict[str, Any]:
        """All settings by name, as a config file holds them."""
        return self.model_dump(exclude={"own"}) | self.own.model_dump()

    @property
    def kind(self) -> type[Learner]:
        """The class of the learner."""
        return LEARNERS[self.learner]

    @property
    def machine(self) -> tuple[str, ...]:
        """Names of the settings that may change when a run is resumed: they affect only speed and memory."""
        return ("device", "workers", "tensorboard", "chunk", *self.kind.machine_settings)

    @property
    def length(self) -> int:
        """Length of the run: its number of iterations."""
        return self.iterations

    def with_length(self, length: int) -> Self:
        """The same settings with another number of iterations."""
        return self.model_copy(update={"iterations": length})

    @property
    def augmentations(self) -> tuple[str, ...]:
        """How training images are changed at random."""
        return tuple(self.augment.split(",")) if self.augment else ()

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of training tasks."""
        return tuple(self.source.split(","))

    @property
    def tested_sources(self) -> tuple[str, ...]:
        """The sources of test tasks."""
        return tuple((self.test_sources or self.source).split(","))

    @property
    def all_sources(self) -> tuple[str, ...]:
        """The sources of training, validation and test tasks, each once."""
        named = ",".join(filter(None, (self.source, self.validation_sources, self.test_sources)))
        return tuple(dict.fromkeys(named.split(",")))

    @property
    def tested_ways(self) -> tuple[int | None, ...]:
        """Numbers of classes in test tasks; None if they vary."""
        if self.sampling == "variable":
            return (None,)
        return tuple(int(way) for way in self.test_ways.split(",")) if self.test_ways else (self.way,)

    @property
    def tested_targets(self) -> tuple[str, ...]:
        """The ways in which test targets arrive: all, example, class."""
        return tuple(self.test_targets.split(","))

    @property
    def tested_weights(self) -> tuple[str, ...]:
        """The weights that are tested, those that are put to use last; without validation none are the best."""
        before = (AS_IT_WAS, START) if self.test_weights == "all" else ()
        if not self.validate_every:
            return (*before, "final")
        return (*before, *(("final", "best") if self.test_weights in ("both", "all") else (self.test_weights,)))

    @property
    def has_pretrained(self) -> bool:
        """Whether the net begins with weights of a pretraining; functions and folders may bring them along."""
        return self.pretrained is not None or is_backbone(self.net)

    @property
    def untouched(self) -> Self:
        """Settings of the pretrained network as it was: batch norms in eval, nearest class mean."""
        changes: dict[str, Any] = {"learner": "ncm", "norm": "Baseline", "own": OwnSettings(), "iterations": 0}
        return self.model_copy(update=changes | {"alpha": None, "schedule": None, "tuned": "all"})

    @property
    def trained_norm(self) -> str:
        """The norm that meta-training uses."""
        return "CBN" if self.norm in SHARED else self.norm

    @property
    def tested_norms(self) -> tuple[str, ...]:
        """The norms that this run's weights are tested with, the run's own norm first."""
        return (self.norm, *(norm for norm in SHARED if norm != self.norm)) if self.norm in SHARED else (self.norm,)

    @field_validator("learner", "norm", "net", "alpha")
    @classmethod
    def _known(cls, value: str | None, info: Any) -> str | None:
        known: dict[str, Iterable[str]] = {"learner": LEARNERS, "norm": NORMS, "net": NETS, "alpha": ALPHAS}
        choices = list(known[info.field_name])
        if info.field_name == "net" and value is not None and is_backbone(value):
            return value
        if value is not None and value not in choices:
            more = ", or package.module:function, or hf:FOLDER" if info.field_name == "net" else ""
            raise choice_error(value, choices, more)
        return value

    @field_validator("source", "validation_sources", "test_sources", "test_ways", "test_targets", "augment")
    @classmethod
    def _listed(cls, value: str | None, info: Any) -> str | None:
        parts = [] if value is None else value.split(",")
        if not all(parts) or len(set(parts)) < len(parts):
            raise ValueError("must be different names, separated by commas")
        if info.field_name == "test_ways" and not all(part.isdecimal() and int(part) > 1 for part in parts):
            raise ValueError("must be numbers of at least 2, separated by commas")
        if info.field_name == "test_targets" and not set(parts) <= set(TARGETS):
            raise ValueError(f"must be one or more of {', '.join(TARGETS)}, separated by commas")
        if info.field_name == "augment" and value is not None:
            if not set(parts) <= set(AUGMENTATIONS):
                raise ValueError(f"must be one or more of {', '.join(AUGMENTATIONS)}, separated by commas")
            return ",".join(name for name in AUGMENTATIONS if name in parts)
        return value

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for name, other in (*self._contradictions(), *self.kind.contradictions(self)):
            value = getattr(self.own if name in type(self.own).model_fields else self, name)
            if value is None:
                raise ValueError(f"{name} must be set with {other}")
            raise ValueError(
                f"{name}={one_line(str(value))} contradicts {one_line(other)}; change one or leave {name} out"
            )
        return self

    def _contradictions(self) -> Iterator[tuple[str, str]]:
        """Settings that no learner can have together."""
        if self.alpha is not None and not issubclass(NORMS[self.norm], TaskNorm):
            yield "alpha", f"norm={self.norm}"
        if self.schedule is not None and self.norm != "BRN":
            yield "schedule", f"norm={self.norm}"
        if not self.has_pretrained:
            for name, usual in (("norm_start", "paper"), ("running", "moving"), ("tuned", "all"), ("as_it_was", False)):
                if getattr(self, name) != usual:
                    yield name, "pretrained=None: it needs a pretrained network"
            if self.norm == "Baseline":
                yield "norm", "pretrained=None: Baseline uses the running moments of pretraining"
        if self.test_weights == "all" and not self.has_pretrained:
            yield "test_weights", "pretrained=None: there is no network as it was"
        if self.as_it_was and not self.validate_every:
            yield "as_it_was", "validate_every=0: validation tasks decide between the candidates"
        if self.filters is not None and (self.net.startswith("resnet") or is_backbone(self.net)):
            yield "filters", f"net={self.net}"
        if self.test_ways is not None and self.sampling == "variable":
            yield "test_ways", "sampling=variable, where each task has its own way"
        if self.compile and self.recompute:
            yield "compile", "recompute=True"
        if self.compile and self.chunk is not None:
            yield "compile", f"chunk={self.chunk}: a compiled net takes its batches whole"
        if self.validate_every and not self.validation_tasks:
            yield "validation_tasks", f"validate_every={self.validate_every}"
        if self.accumulate > self.meta_batch:
            yield "accumulate", f"meta_batch={self.meta_batch}"
        if self.kind.meta_trained and not self.iterations:
            yield "iterations", f"learner={self.learner}, which is meta-trained"


DEFAULTS: dict[str, Any] = {"learner": "maml", "source": "glyphs", "norm": "TaskNorm-I", "way": 5, "shot": 1}


def parsed(name: str, value: Any, fields: Mapping[str, FieldInfo]) -> Any:
    """The value of one setting, converted from text if it came from a flag."""
    kind: Any = Annotated[fields[name].annotation, fields[name]]
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return value  # reported when all settings are checked


def _check_text(key: str, value: Any) -> None:
    """Raise if a setting that others depend on is not a text; a source may be several."""
    parts = value if key == "source" and isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise SettingsError(f"{key} must be a text, got {short(value)}; correct it")


def _own_settings(learner: str) -> type[OwnSettings]:
    return LEARNERS[learner].own_settings if learner in LEARNERS else OwnSettings


def _owners() -> dict[str, str]:
    """For each setting that only one learner has, the name of that learner."""
    return {name: learner for learner, kind in LEARNERS.items() for name in kind.own_settings.model_fields}


def _asked(named: Mapping[str, Any]) -> Asked:
    try:
        way, shot = int(named["way"]), int(named["shot"])
    except (TypeError, ValueError, OverflowError):
        way, shot = 5, 1  # reported by name when all settings are checked
    return Asked(joined(named["source"]).split(","), named["norm"], way, shot, named.get("sampling"))

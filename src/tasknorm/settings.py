"""Every setting of a run, in one place: a key of a config file and a flag of `tasknorm train` alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, field_validator, model_validator

from tasknorm.config import Names, SettingsError, about, in_words, joined
from tasknorm.episode import TARGETS
from tasknorm.learners import LEARNERS
from tasknorm.nets import NETS
from tasknorm.norms import ALPHAS, NORMS, TaskNorm
from tasknorm.protocols import protocol

SHARED = ("TBN", "CBN", "RN")  # one meta-training, as CBN, serves the three (section 5)
ONLY = {
    "maml": ("inner_lr", "inner_steps", "test_steps", "first_order", "at_once"),
    "protonets": ("reduction",),
    "cnaps": ("film", "regulariser", "encoder_filters"),
}


class Settings(BaseModel):
    """One run. `Settings.of` fills in what the papers prescribe."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    # What is trained
    learner: str = Field(description="maml, protonets or cnaps.")
    source: Names = Field("glyphs", description="A data set's name or path; several by commas, each task of one.")
    norm: str = Field("TaskNorm-I", description="A label of the paper; TBN and RN train as CBN.")
    net: str = Field(description=f"The network: {', '.join(NETS)}.")
    pretrained: str | None = about("Weights of the net, as `tasknorm pretrain` writes them.")
    filters: int | None = about("Channels of the net's blocks; the net's own number if left out.", ge=1)
    affine: Literal["all", "offset", "none"] = Field("all", description="Norms learn gamma and beta, beta, or none.")
    eps: float = Field(1e-5, gt=0, description="Added to the variance in norms.")
    momentum: float = Field(0.1, gt=0, le=1, description="How far an update moves running moments.")
    alpha: str | None = about(f"The form of TaskNorm's alpha: {', '.join(ALPHAS)}.")
    schedule: int | None = about("BRN: updates, two for each iteration, until its bounds are wide.", ge=0)

    # Tasks
    sampling: Literal["fixed", "variable"] = Field("fixed", description="Tasks of one shape, or as in Meta-Dataset.")
    way: int = Field(5, ge=2, description="Classes of a task at meta-test.")
    shot: int = Field(1, ge=1, description="Context images of each class.")
    targets: int = Field(ge=1, description="Target images of each class at meta-test.")
    train_way: int = Field(ge=2, description="Classes of a task at meta-train.")
    train_targets: int = Field(ge=1, description="Target images of each class at meta-train.")
    image_size: int = Field(ge=1, description="Height and width of the images.")
    scale: Literal["unit", "signed", "standard"] = Field("unit", description="To [0, 1], [-1, 1], or standardised.")
    rotate: bool = Field(False, description="Turn each class of a task by a multiple of 90 degrees.")
    skip_bad: bool = Field(
        False, description="Leave out images that cannot be read and classes too small for a task, and list them."
    )
    max_way: int = Field(40, ge=5, description="Classes of a variable task at meta-train, at most.")
    max_context: int = Field(400, ge=5, description="Context images of a variable task at meta-train, at most.")
    test_max_way: int = Field(50, ge=5, description="Classes of a variable task at meta-test, at most.")
    test_max_context: int = Field(500, ge=5, description="Context images of a variable task at meta-test, at most.")

    # The learner
    inner_lr: float | None = about("MAML: step size of the inner loop, for a loss that sums over classes.", gt=0)
    inner_steps: int | None = about("MAML: inner steps at meta-train.", ge=1)
    test_steps: int | None = about("MAML: inner steps at meta-test.", ge=1)
    first_order: bool | None = about("MAML: treat inner gradients as constants.")
    at_once: int | None = about("MAML: tasks that run together at most; fewer need less memory.", ge=1)
    reduction: Literal["mean", "sum"] | None = about("ProtoNets: of a task's loss over its targets.")
    film: bool | None = about("CNAPs: adapt features, by FiLM, and not the classifier alone.")
    regulariser: float | None = about("CNAPs: weight of the FiLM generator's regulariser.", ge=0)
    encoder_filters: int | None = about("CNAPs: channels of the set encoder.", ge=1)

    # The loop
    iterations: int = Field(ge=1, description="Steps of the optimizer.")
    meta_batch: int = Field(ge=1, description="Tasks of each step.")
    accumulate: int = Field(1, ge=1, description="Parts in which fixed tasks pass; more need less memory.")
    learning_rate: float = Field(gt=0, description="Of Adam.")
    halve_every: int = Field(0, ge=0, description="Halve the learning rate after so many iterations; 0 never.")
    clip: float | None = about("Bound of each element of the gradient.", gt=0)
    recompute: bool = Field(False, description="Recompute activations backwards rather than keep them: less memory.")
    bf16: bool = Field(False, description="Compute in bfloat16 where that is safe.")
    compile: bool = Field(False, description="Compile the net; costs a minute at the start.")
    device: Literal["auto", "cuda", "mps", "cpu"] = Field("auto", description="Where to compute.")
    workers: int = Field(1, ge=0, description="Threads that prepare tasks ahead.")
    seed: int = Field(0, ge=0, lt=2**63, description="Of initial weights and tasks.")

    # Validation, test, records
    validate_every: int = Field(500, ge=0, description="Iterations between validations; 0 for none.")
    validation_sources: Names | None = about(
        "Where validation tasks come from, by commas; training's with valid classes if left out."
    )
    validation_tasks: int = Field(100, ge=1, description="Tasks of each validation and source, always the same.")
    test_tasks: int = Field(600, ge=0, description="Tasks of the test at the end, for each source; 0 for none.")
    test_sources: Names | None = about("Where test tasks come from, by commas; as in training if left out.")
    test_ways: Names | None = about("Classes of test tasks, by commas; `way` if left out.")
    test_targets: Names = Field("all", description="How targets come in the test: all, example, class, by commas.")
    checkpoint_every: int = Field(100, ge=1, description="Iterations between checkpoints.")
    tensorboard: bool = Field(False, description="Also log for TensorBoard; needs tasknorm[tensorboard].")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The given settings, and the papers' for the rest.

        Raises:
            SettingsError: names the setting that is unknown, wrong, or contradicts another.

        >>> Settings.of({"learner": "maml", "source": "omniglot", "way": 20}).inner_lr
        0.1
        """
        given = {key: value for key, value in given.items() if value is not None}
        named: dict[str, Any] = {
            "learner": "maml",
            "source": "glyphs",
            "norm": "TaskNorm-I",
            "way": 5,
            "shot": 1,
        } | given
        try:
            way, shot = int(named["way"]), int(named["shot"])
        except (TypeError, ValueError):
            way, shot = 5, 1  # refused below, by name
        sources = joined(named["source"]).split(",")
        papers = protocol(named["learner"], sources, named["norm"], way, shot, named.get("sampling"))
        try:
            made = cls(**(papers | named))
        except ValidationError as error:
            errors = error.errors()
            # An unknown learner has no protocol, and what it would have given is missing: that is not to be said.
            wrong = [e for e in errors if e["type"] != "missing"] or errors
            raise SettingsError("; ".join(in_words(e, cls) for e in wrong)) from None
        if made.norm != "BRN" or made.schedule is not None:
            return made
        return made.model_copy(update={"schedule": min(40_000, 2 * made.iterations)})  # stays if the run gets longer

    @property
    def sources(self) -> tuple[str, ...]:
        """Where training tasks come from."""
        return tuple(self.source.split(","))

    @property
    def tested_sources(self) -> tuple[str, ...]:
        """Where test tasks come from."""
        return tuple((self.test_sources or self.source).split(","))

    @property
    def all_sources(self) -> tuple[str, ...]:
        """Where tasks of any split come from."""
        named = ",".join(filter(None, (self.source, self.validation_sources, self.test_sources)))
        return tuple(dict.fromkeys(named.split(",")))

    @property
    def tested_ways(self) -> tuple[int | None, ...]:
        """Classes of test tasks; None if they vary."""
        if self.sampling == "variable":
            return (None,)
        return tuple(int(way) for way in self.test_ways.split(",")) if self.test_ways else (self.way,)

    @property
    def tested_targets(self) -> tuple[str, ...]:
        """How targets come in the test."""
        return tuple(self.test_targets.split(","))

    @property
    def trained_norm(self) -> str:
        """The norm that meta-training uses."""
        return "CBN" if self.norm in SHARED else self.norm

    @property
    def tested_norms(self) -> tuple[str, ...]:
        """The norms that this run's weights serve, its own first."""
        return (self.norm, *(norm for norm in SHARED if norm != self.norm)) if self.norm in SHARED else (self.norm,)

    @field_validator("learner", "norm", "net", "alpha")
    @classmethod
    def _known(cls, value: str | None, info: Any) -> str | None:
        known: dict[str, list[str]] = {
            "learner": list(LEARNERS),
            "norm": list(NORMS),
            "net": list(NETS),
            "alpha": list(ALPHAS),
        }
        choices = known[info.field_name]
        if value is not None and value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return value

    @field_validator("source", "validation_sources", "test_sources", "test_ways", "test_targets")
    @classmethod
    def _listed(cls, value: str | None, info: Any) -> str | None:
        parts = [] if value is None else value.split(",")
        if not all(parts) or len(set(parts)) < len(parts):
            raise ValueError("must be different names, joined by commas")
        if info.field_name == "test_ways" and not all(part.isdecimal() and int(part) > 1 for part in parts):
            raise ValueError("must be numbers of at least 2, joined by commas")
        if info.field_name == "test_targets" and not set(parts) <= set(TARGETS):
            raise ValueError(f"must be some of {', '.join(TARGETS)}, joined by commas")
        return value

    @model_validator(mode="after")
    def _agree(self) -> Self:
        for learner, names in ONLY.items():
            for name in names:
                alien = self.learner != learner and getattr(self, name) is not None
                self._refuse_if(alien, name, f"learner={self.learner}")
        task_norm = issubclass(NORMS[self.norm], TaskNorm)
        self._refuse_if(self.alpha is not None and not task_norm, "alpha", f"norm={self.norm}")
        self._refuse_if(self.schedule is not None and self.norm != "BRN", "schedule", f"norm={self.norm}")
        bare = self.norm == "Baseline" and self.pretrained is None
        self._refuse_if(bare, "norm", "pretrained=None: its moments are those of pretraining")
        self._refuse_if((self.learner == "maml") != self.net.startswith("maml"), "net", f"learner={self.learner}")
        resnet = self.net.startswith("resnet")
        self._refuse_if(self.learner == "cnaps" and not resnet, "net", "learner=cnaps, which needs a resnet")
        self._refuse_if(resnet and self.filters is not None, "filters", f"net={self.net}")
        if self.learner == "maml":
            self._refuse_if(self.train_way != self.way, "train_way", f"way={self.way}: MAML's classifier has one size")
            self._refuse_if(self.sampling == "variable", "sampling", "learner=maml: its classifier has one size")
            other_ways = self.tested_ways != (self.way,)
            self._refuse_if(other_ways, "test_ways", f"way={self.way}: MAML's classifier has one size")
            self._refuse_if(self.recompute, "recompute", "learner=maml, whose weights change: lower at_once instead")
            self._refuse_if(self.compile and not self.first_order, "compile", "first_order=False")
        fixed = self.test_ways is not None and self.sampling == "variable"
        self._refuse_if(fixed, "test_ways", "sampling=variable, where ways vary")
        self._refuse_if(self.compile and self.recompute, "compile", "recompute=True")
        self._refuse_if(self.accumulate > self.meta_batch, "accumulate", f"meta_batch={self.meta_batch}")
        return self

    def _refuse_if(self, wrong: bool, name: str, other: str) -> None:
        if wrong:
            raise ValueError(f"{name}={getattr(self, name)} contradicts {other}; change one or leave {name} out")


def parsed(name: str, value: Any) -> Any:
    """The value of one setting, from a flag's text if need be."""
    field = Settings.model_fields[name]
    kind: Any = Annotated[field.annotation, field]
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return value  # refused where all settings are

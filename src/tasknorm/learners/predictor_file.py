"""The file of a predictor: one safetensors file that says all about itself, checked wholly before it is used.

| tensors                            | what they are                                                             |
|------------------------------------|---------------------------------------------------------------------------|
| `net.*`                            | the adapted net, with its context moments                                 |
| `weight`, `bias`                   | of the task's linear classifier, if the net has none of its own           |
| `context.images`, `context.labels` | the context before scaling, in bytes: for adding examples                 |
| `learner.*`                        | the learner without its net, as CNAPs' generators: for adding examples    |
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from torch import nn

from tasknorm.errors import DataError, SettingsError, WeightsError, at, one_line, reason, short
from tasknorm.files import atomic_file
from tasknorm.learners.about import FORMAT, About, LearnerMake, Tensors
from tasknorm.learners.adapted import Adapted, Kept, checked_names
from tasknorm.learners.file_checks import check_classifier, check_context, check_features, check_tensors
from tasknorm.learners.tensors_file import write_tensors
from tasknorm.machine import open_regular
from tasknorm.nets import net_make, norm_make
from tasknorm.norms import NORMS, Norm

if TYPE_CHECKING:
    from tasknorm.learners.learner import Learner

OLD = "tasknorm predictor 1"  # of version 0.1.0: tensors, the norms and the classifier's shape alone


def write_predictor(file: Path, adapted: Adapted, said: Mapping[str, Any]) -> None:
    """Write an adapted net and what is said about it, whole or not at all."""
    tensors = {name: tensor.detach().contiguous() for name, tensor in adapted.state_dict().items()}
    if adapted.weight is not None and adapted.bias is None:  # so that a file without one is known to be damaged
        tensors["bias"] = adapted.weight.new_zeros(len(adapted.weight))
    kept = None
    if adapted.kept is not None:
        others = _others(adapted.kept.learner)
        tensors |= {f"learner.{name}": tensor.contiguous() for name, tensor in others.state_dict().items()}
        tensors |= {"context.images": adapted.kept.images, "context.labels": adapted.kept.labels}
        kept = LearnerMake(norm=norm_make(others), own=adapted.kept.learner.own_options())
    about = About(
        format=FORMAT,
        tasknorm=version("tasknorm"),
        torch=torch.__version__,
        net=net_make(adapted.net),
        norm=norm_make(adapted.net),
        norms=norms_of(adapted.net),
        classifier=None if adapted.weight is None else tuple(adapted.weight.shape),  # type: ignore[arg-type]
        names=list(adapted.names),
        label=adapted.label,
        kept=kept,
        sha256="",
        **said,
    ).signed(tensors)
    with atomic_file(file) as opened:
        write_tensors(opened, tensors, {"about": about.model_dump_json()})


def read_predictor(file: Path, net: nn.Module | str | None) -> tuple[Adapted, About | None]:
    """The adapted net in a file, and what the file says about it, which was nothing in version 0.1.0.

    Args:
        file: its path.
        net: gets the weights; made as the file says if None, or by the name of a network of others.

    Raises:
        WeightsError: if the file is damaged or no predictor, or is of another net or another norm; a given net then
            stays as it was.
    """
    metadata, tensors = _read(file)
    about = None if metadata.get("format") == OLD else _about(file, metadata)
    if about is not None and about.signed(tensors) != about:
        raise _damaged(file, "about.sha256", "its checksum is wrong")
    parts = {prefix: {n: t for n, t in tensors.items() if n.startswith(prefix)} for prefix in ("learner.", "context.")}
    classifier: Tensors = {name: tensors[name] for name in ("weight", "bias") if name in tensors}
    weights = {n: t for n, t in tensors.items() if n not in classifier and not n.startswith(tuple(parts))}
    made = net if isinstance(net, nn.Module) else _made(file, about, net)
    new = made is not net
    _check_norms(file, about.norms if about is not None else metadata.get("norms"), made)
    check_tensors(file, weights, made, "net.", "this net")
    check_context(file, weights, made)
    shape = str(about.classifier or "none") if about is not None else metadata.get("classifier")
    check_classifier(file, classifier, shape)
    check_features(file, classifier.get("weight"), made)
    kinds = {t.dtype for t in (*(weights[f"net.{name}"] for name, _ in made.named_parameters()), *classifier.values())}
    if new and len(kinds) > 1:
        raise _damaged(file, "net", f"weights must be of one dtype, got {', '.join(sorted(map(str, kinds)))}")
    learner = None
    if about is not None:
        learner = _learner(file, about, made, parts["learner."])
        _check_about(file, about, made, parts["context."])
    made.load_state_dict({name.removeprefix("net."): t for name, t in weights.items()}, assign=new)
    if any(tensor.is_meta for tensor in (*made.parameters(), *made.buffers())):
        raise WeightsError(
            f"{at(file)} lacks tensors that its net computes when it is made; pass a net: Predictor.load(file, net)"
        )
    names = None if about is None else about.names
    adapted = Adapted(made, classifier.get("weight"), classifier.get("bias"), names)
    if learner is not None:
        images, labels = parts["context."]["context.images"], parts["context."]["context.labels"]
        adapted.kept = Kept.of(learner, made, images, labels)
    return adapted, about


def _read(file: Path) -> tuple[dict[str, str], Tensors]:
    try:
        open_regular(file).close()  # what follows would wait for a pipe
        with safe_open(file, "pt") as opened:
            return opened.metadata() or {}, {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        if file.is_dir():
            raise WeightsError(
                f"{at(file)} is a folder, and a predictor is a file; make one from a run's folder: "
                "`tasknorm adapt RUN --context FOLDER --out FILE`"
            ) from None
        raise WeightsError(
            f"{at(file)} is not a predictor: {reason(error)}; pass a file that `tasknorm adapt` or Predictor.save wrote"
        ) from None


def _about(file: Path, metadata: Mapping[str, str]) -> About:
    text = metadata.get("about")
    if text is None or "format" in metadata:
        raise WeightsError(
            f"{at(file)} has format {short(metadata.get('format'))}, not {FORMAT!r}; save the predictor again"
        )
    try:
        return About.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",):
            raise WeightsError(
                f"{at(file)} is not a predictor that this version reads: its format must be {FORMAT!r}, got "
                f"{short(first['input'])}; pass a file that `tasknorm adapt` or Predictor.save wrote"
            ) from None
        place = one_line(".".join(map(str, first["loc"])))
        raise _damaged(file, f"about.{place}" if place else "about", first["msg"]) from None
    except ValueError as error:
        raise _damaged(file, "about", reason(error)) from None


def _made(file: Path, about: About | None, trusted: str | None = None) -> nn.Module:
    """The net that a file describes, or one by a name that the caller trusts, without weights."""
    if about is None or about.net is None or (about.norm is None and about.norms):
        raise WeightsError(
            f"{at(file)} does not say how its net is made; pass a net of the same make: Predictor.load(file, net)"
        )
    if trusted is None and not about.net.is_known:
        raise WeightsError(
            f"{at(file)} holds the network {short(about.net.name)}, and a file alone does not import modules or call "
            "functions; if you trust it, name the network: Predictor.load(file, name), or --net on the command line"
        )
    try:
        norm = None if about.norm is None else about.norm.maker()
        return about.net.net(norm, None if about.net.is_known else trusted)
    except ImportError as error:
        raise WeightsError(f"{at(file)} holds a network that needs {error.name}: pip install 'tasknorm[hf]'") from None
    except SettingsError as error:
        if trusted is not None:
            raise
        raise _damaged(file, "about.net", f"no such net can be made ({one_line(str(error))})") from None
    except (LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise _damaged(file, "about.net", f"no such net can be made ({reason(error)})") from None


def _learner(file: Path, about: About, net: nn.Module, tensors: Tensors) -> Learner | None:
    """The learner that learns the task again; its net has no weights."""
    from tasknorm.learners import LEARNERS  # learners make predictors, which come from files

    if about.kept is None:
        if tensors:
            raise _damaged(file, short(min(tensors)), "the context was forgotten, and this is needed only with it")
        return None
    kind = {learner.label: learner for learner in LEARNERS.values()}.get(about.learner or "")
    if kind is None or not kind.learns_again:
        raise _damaged(file, "about.learner", f"{short(about.learner)} keeps no context")
    norm = about.kept.norm or about.norm
    try:
        with torch.device("meta"):
            maker = NORMS["TBN"] if norm is None else norm.maker()
            learner = kind.of(copy.deepcopy(net).to("meta"), maker, about.kept.own)
    except (LookupError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise _damaged(file, "about.kept", f"no such learner can be made ({reason(error)})") from None
    others = _others(learner)
    check_tensors(file, tensors, others, "learner.", "this learner")
    others.load_state_dict({name.removeprefix("learner."): t for name, t in tensors.items()}, assign=True)
    return learner


def _others(learner: Learner) -> nn.ModuleDict:
    """The learner's networks beside the net that a predictor holds."""
    return nn.ModuleDict({name: part for name, part in learner.named_children() if part is not learner.target_net})


def _check_about(file: Path, about: About, net: nn.Module, context: Tensors) -> None:
    """Raise unless what a file says is true of its tensors."""
    way = about.classifier[0] if about.classifier is not None else getattr(net, "way", None)
    try:
        checked_names(about.names, way)
    except DataError as error:
        raise _damaged(file, "about.names", str(error).split(";")[0]) from None
    label = Adapted.label_of(net)
    if about.label != label:
        raise _damaged(file, "about.label", f"its norms are {label}, got {about.label!r}")
    preparation, shape = about.preparation, getattr(net, "image_shape", None)
    if preparation is not None and shape not in (None, preparation.shape):
        raise _damaged(file, "about.preparation", f"images must have shape {shape}, got {preparation.shape}")
    if set(context) != (set() if about.kept is None else {"context.images", "context.labels"}):
        raise _damaged(file, "context", "images and labels are there if it was kept, and only then")
    if about.kept is None:
        return
    images, labels = context["context.images"], context["context.labels"]
    if preparation is None or images.dtype != torch.uint8 or images.shape[1:] != preparation.shape:
        raise _damaged(file, "context.images", f"images must be bytes, prepared, got shape {tuple(images.shape)}")
    if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
        raise _damaged(file, "context.labels", f"each image needs a label, got shape {tuple(labels.shape)}")
    if labels.unique().tolist() != list(range(len(about.names))):
        raise _damaged(file, "context.labels", f"each of the {len(about.names)} classes needs an image, and no other")


def _damaged(file: Path, place: str, why: str) -> WeightsError:
    return WeightsError(f"{at(file, place)}: damaged, {why}; save it again")


def norms_of(net: nn.Module) -> str:
    """The labels of a net's norms."""
    return ", ".join(sorted({module.label for module in net.modules() if isinstance(module, Norm)}))


def _check_norms(file: Path, said: str | None, net: nn.Module) -> None:
    """Raise unless the net has the norms that the file names."""
    if said != norms_of(net):
        norms = "that it does not name" if said is None else one_line(said)
        raise WeightsError(
            f"{at(file)} holds a net with norms {norms}, got one with {norms_of(net)}; make the net with the norm "
            "that it was saved with"
        )

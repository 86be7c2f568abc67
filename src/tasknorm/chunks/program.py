"""A net as a graph that is divided at its norms: what can be computed before a norm's moments are known, and after.

A cut is where activations wait for the moments of all examples. Cut 0 is before the net, with the images; cut 1 is
where the first norms wait, those whose input depends on no other norm; and so on; the last is after the net, with its
output. Values that are alive at a cut are all that the rest of the net needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tasknorm.chunks.changing import changed, is_in_place
from tasknorm.errors import one_line
from tasknorm.kernels import channels_last, images_channels_last, scale_shift
from tasknorm.norms import Norm, Tables

INPUT = "images"
MOST_LEFT_OUT = 3  # cuts in a row, whose parts are computed once more for each of them
Values = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One value of the graph: a node's, or (`waits`) a norm's input, kept until the norm's tables are known."""

    name: str
    node: fx.Node
    needs: tuple[str, ...]
    made: int  # the cut before which it can be computed
    waits: bool = False


@dataclass(frozen=True)
class Part:
    """What leads from the values at one cut to those at a later one: steps in their order, and what they need."""

    steps: tuple[Step, ...]
    needs: tuple[str, ...]
    norms: tuple[str, ...]
    gives: tuple[str, ...]


class Program:
    """The graph of a net, divided at its norms.

    Args:
        net: any module that `torch.fx` can trace; modules without norms inside are called as they are.

    Raises:
        ValueError: if it has no norms, cannot be traced, or has layers that look beyond an example otherwise.
    """

    def __init__(self, net: nn.Module) -> None:
        self.nodes = _traced(net)
        self.targets = {str(node.target) for node in self.nodes if node.op == "call_module"}
        self.constants = {node.name: str(node.target) for node in self.nodes if node.op == "get_attr"}
        self._cut: dict[fx.Node, int] = {}  # of a norm: where it waits; of others: after which they can be computed
        modules = dict(net.named_modules(remove_duplicate=False))
        self.norms = {
            node.name: str(node.target)
            for node in self.nodes
            if node.op == "call_module" and isinstance(modules[str(node.target)], Norm)
        }
        for node in self.nodes:
            before = max((self._cut[each] for each in node.all_input_nodes), default=0)
            self._cut[node] = before + (node.name in self.norms)
        self.cuts = max(self._cut.values()) + 1
        self.steps = {step.name: step for step in self._steps()}
        self.output = next(node.name for node in self.nodes if node.op == "output")
        self.plans: dict[tuple[torch.Size, bool], list[bool]] = {}  # which cuts are kept: by shape of images, and lean
        self._parts: dict[tuple[int, int, bool], Part] = {}

    def norms_at(self, cut: int) -> list[str]:
        """Names of the norms that wait at a cut."""
        return [node.name for node in self.nodes if node.name in self.norms and self._cut[node] == cut]

    def alive(self, cut: int) -> tuple[str, ...]:
        """Names of the values that were computed before this cut and are needed after it."""
        if cut == self.cuts:
            return (self.output,)
        last = {INPUT: 0}
        for step in self.steps.values():
            for name in step.needs:
                last[name] = max(last.get(name, 0), step.made)
        made = {INPUT: 0} | {name: step.made for name, step in self.steps.items()}
        return tuple(name for name, end in last.items() if made[name] <= cut < end)

    def part(self, start: int, end: int, *, moments: bool = False) -> Part:
        """What leads from one cut to another; to the moments of the norms that wait there alone, if so asked."""
        key = start, end, moments
        if key not in self._parts:
            there = set(self.alive(start))
            waiting = map(waits, self.norms_at(end))
            gives = tuple(waiting if moments else (name for name in self.alive(end) if name not in there))
            wanted, needs = list(gives), set()
            chosen: set[str] = set()
            while wanted:
                name = wanted.pop()
                if name in there:
                    needs.add(name)
                elif name not in chosen:
                    chosen.add(name)
                    wanted.extend(self.steps[name].needs)
            steps = tuple(step for step in self.steps.values() if step.name in chosen)
            norms = tuple(step.name for step in steps if step.name in self.norms and not step.waits)
            self._parts[key] = Part(steps, tuple(sorted(needs)), norms, gives)
        return self._parts[key]

    def keeps(self, sizes: Mapping[str, int], *, lean: bool) -> list[bool]:
        """For each cut with norms, whether what is alive there is kept; otherwise it is made again from the cut before.

        It is not kept if it is larger than what it is made from, unless that was not kept either.

        Args:
            sizes: how large each value is.
            lean: do not keep what is as large, either, and leave out up to three cuts in a row.
        """
        kept: list[bool] = []
        start, left_out = 0, 0
        for cut in range(1, self.cuts):
            there = self.alive(start)
            new = sum(sizes[name] for name in self.alive(cut) if name not in there)
            old = sum(sizes[name] for name in self.part(start, cut).needs)
            grows = new >= old if lean else new > old
            kept.append(not grows or left_out == (MOST_LEFT_OUT if lean else 1))
            start, left_out = (cut, 0) if kept[-1] else (start, left_out + 1)
        return kept

    def _steps(self) -> Iterator[Step]:
        """The values in their order; those of norms as late as they can be, since their inputs are kept anyway."""
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            inputs = [each for each in node.all_input_nodes if each.name not in self.constants]
            needs = tuple(INPUT if each.op == "placeholder" else each.name for each in inputs)
            if node.name in self.norms:
                yield Step(waits(node.name), node, needs, self._cut[node], waits=True)
                yield Step(node.name, node, (waits(node.name),), min(map(self._used, node.users), default=self.cuts))
            else:
                yield Step(node.name, node, needs, self._used(node))

    def _used(self, node: fx.Node) -> int:
        """The cut before which a node takes its inputs."""
        return self._cut[node] + (node.name not in self.norms)


def waits(norm: str) -> str:
    """The name of a norm's input while it waits for the norm's tables."""
    return f"{norm} waits"


def run(part: Part, values: Values, tables: Mapping[str, Tables | None], modules: Mapping[str, nn.Module]) -> Values:
    """Compute a part for some examples.

    Args:
        part: its steps are computed.
        values: what the part needs, and constants.
        tables: those of each norm for these examples; None leaves activations as they are.
        modules: the modules of the net by name.
    """
    values = dict(values)
    for step in part.steps:
        node = step.node
        if step.waits:
            values[step.name] = values[step.needs[0]]
        elif step.name in tables:
            values[step.name] = normalised(values[step.needs[0]], tables[step.name])
        else:
            arguments, options = fx.map_arg((node.args, node.kwargs), lambda each: values[_name(each)])
            values[step.name] = _called(node, arguments, options, modules)
    return values


def normalised(a: Tensor, tables: Tables | None) -> Tensor:
    """Some examples as a norm with these tables leaves them."""
    if tables is None:
        return a
    return scale_shift(a.unsqueeze(-1), *tables).squeeze(-1) if a.ndim == 2 else scale_shift(a, *tables)


def _name(node: fx.Node) -> str:
    return INPUT if node.op == "placeholder" else node.name


def _called(node: fx.Node, arguments: Any, options: Any, modules: Mapping[str, nn.Module]) -> Any:
    if node.op == "output":
        return arguments[0]
    if arguments and is_in_place(node, modules):  # what is kept must stay as it is: it is used again
        arguments = (arguments[0].clone(), *arguments[1:])
    if node.op == "call_module":
        return modules[str(node.target)](*arguments, **options)
    if node.op == "call_method":
        return getattr(arguments[0], str(node.target))(*arguments[1:], **options)
    assert callable(node.target)
    return node.target(*arguments, **options)


class _Tracer(fx.Tracer):
    """Looks into modules that hold norms, and into no others."""

    def __init__(self) -> None:
        super().__init__(autowrap_functions=(channels_last, images_channels_last))

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, Norm) or not any(isinstance(inner, Norm) for inner in m.modules())


@torch.no_grad()  # recomputed blocks are then plain ones
def _traced(net: nn.Module) -> list[fx.Node]:
    what = f"chunks need a net that treats each example by itself but for its norms, and {type(net).__name__}"
    if isinstance(net, Norm) or not any(isinstance(module, Norm) for module in net.modules()):
        raise ValueError(f"{what} has no norms of tasknorm inside; pass a net that has, or leave chunk out")
    for name, module in net.named_modules():
        if isinstance(module, _BatchNorm):
            raise ValueError(
                f"{what} has a {type(module).__name__} ({name!r}), which sees a chunk as its batch; convert it first: "
                'tasknorm.convert(net, "CBN")'
            )
        if all(hasattr(module, each) for each in ("phase", "enter", "leave")) and not isinstance(module, Norm):
            raise ValueError(
                f"{what} has a {type(module).__name__} ({name!r}) that takes part in phases and is no tasknorm.Norm; "
                "leave chunk out"
            )
    try:
        graph = _Tracer().trace(net)
    except Exception as error:  # a forward may do anything with what torch.fx gives it
        raise ValueError(
            f"chunks need a net whose forward torch.fx can trace, got {type(net).__name__} "
            f"({type(error).__name__}: {one_line(str(error))}); put what it cannot follow into a module without norms, "
            "or leave chunk out"
        ) from error
    modules = dict(net.named_modules(remove_duplicate=False))
    _check_changed(list(graph.nodes), modules, what)
    graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or node.op == "call_module")
    nodes = list(graph.nodes)
    if sum(node.op == "placeholder" for node in nodes) != 1:
        raise ValueError(f"chunks need a net that takes images alone, got {type(net).__name__}; wrap it in one")
    for node in nodes:
        if node.op == "call_module" and isinstance(modules[str(node.target)], Norm) and len(node.args) != 1:
            raise ValueError(f"chunks need norms that are called as norm(x), got {node.format_node()}; call it so")
    return nodes


def _check_changed(nodes: list[fx.Node], modules: Mapping[str, nn.Module], what: str) -> None:
    """Refuse a net that changes a value in place and then uses it by its old name: here it stays as it was."""
    place = {node: number for number, node in enumerate(nodes)}
    for node in nodes:
        later = (place[user] > place[node] for value in changed(node, modules) for user in value.users)
        if any(later) or isinstance(node.kwargs.get("out"), fx.Node):
            raise ValueError(
                f"{what} changes a value in place and then uses it as it was before, in {node.format_node()}; use the "
                "result of the call instead, or leave chunk out"
            )

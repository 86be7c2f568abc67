"""Episodes: laws that hold for any split, and Meta-Dataset's statistics on its own specs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasknorm.data.formats.dataset_spec import read_spec
from tasknorm.data.sampling.episode_images import Draw, statistics
from tasknorm.data.sampling.samplers import FixedSampler, Mixture, VariableSampler
from tasknorm.data.spec import Split
from tasknorm.errors import DataError

seeds = st.integers(0, 2**64 - 1)
indices = st.integers(0, 2**40)


@st.composite
def splits(draw, fewest=2):
    """A split of any kind with at least five classes in some group."""
    images = tuple(draw(st.lists(st.integers(fewest, 300), min_size=5, max_size=60)))
    first = draw(st.integers(0, 1000))
    classes = tuple(range(first, first + len(images)))
    kind = draw(st.sampled_from(["plain", "bilevel", "dag"]))
    if kind == "plain":
        return Split(classes, images)
    cut = draw(st.integers(5, len(images)))
    rest = (tuple(range(cut, len(images))),) if kind == "bilevel" else (tuple(range(len(images))),)
    return Split(classes, images, (tuple(range(cut)), *rest), kind)


def same(one: Draw, other: Draw) -> bool:
    return (
        one.source == other.source
        and np.array_equal(one.classes, other.classes)
        and np.array_equal(one.rotations, other.rotations)
        and all(map(np.array_equal, one.context, other.context))
        and all(map(np.array_equal, one.target, other.target))
    )


def check_laws(draw: Draw, split: Split) -> None:
    """Labels are consistent; no image twice; context and target are disjoint and not empty."""
    images = dict(zip(split.classes, split.images, strict=True))
    assert len(set(draw.classes.tolist())) == draw.way == len(draw.context) == len(draw.target)
    assert len(draw.rotations) == draw.way
    for class_id, context, target in zip(draw.classes.tolist(), draw.context, draw.target, strict=True):
        together = context.tolist() + target.tolist()
        assert len(set(together)) == len(together)
        assert 0 <= min(together) <= max(together) < images[class_id]
        assert len(context) >= 1
        assert len(target) >= 1


@given(splits(fewest=6), seeds, indices, st.booleans())
def test_fixed_episodes(split, seed, index, rotate):
    draw = FixedSampler(split, way=5, shot=2, targets=4, rotate=rotate).draw(seed, index)
    check_laws(draw, split)
    assert draw.way == 5
    assert {len(images) for images in draw.context} == {2}
    assert {len(images) for images in draw.target} == {4}
    assert set(draw.rotations.tolist()) <= ({0, 1, 2, 3} if rotate else {0})


@given(splits(), seeds, indices, st.sampled_from([(40, 400), (50, 500), (6, 9)]))
def test_variable_episodes(split, seed, index, caps):
    max_way, max_context = caps
    draw = VariableSampler(split, max_way, max_context).draw(seed, index)
    check_laws(draw, split)
    assert 5 <= draw.way <= max_way
    assert sum(map(len, draw.context)) <= max_context
    assert len({len(images) for images in draw.target}) == 1
    images = dict(zip(split.classes, split.images, strict=True))
    smallest = min(images[class_id] for class_id in draw.classes.tolist())
    assert len(draw.target[0]) == min(10, smallest // 2)
    position = {class_id: i for i, class_id in enumerate(split.classes)}
    chosen = {position[class_id] for class_id in draw.classes.tolist()}
    holding = [group for group in split.groups if chosen <= set(group)]
    assert holding or split.kind == "plain"
    if split.kind == "dag":
        assert any(draw.way == min(max_way, len(group)) for group in holding)


@given(splits(fewest=6), seeds, st.lists(indices, min_size=2, max_size=5))
def test_an_episode_is_the_same_in_any_order(split, seed, wanted):
    for sampler in (FixedSampler(split, 5, 1, 5, rotate=True), VariableSampler(split)):
        forwards = [sampler.draw(seed, index) for index in wanted]
        backwards = [sampler.draw(seed, index) for index in reversed(wanted)][::-1]
        assert all(map(same, forwards, backwards))


def test_episodes_differ():
    sampler = FixedSampler(Split(tuple(range(20)), (20,) * 20), way=5, shot=1, targets=5)
    assert not same(sampler.draw(0, 0), sampler.draw(0, 1))
    assert not same(sampler.draw(0, 0), sampler.draw(1, 0))


def test_an_episode_is_frozen():
    """These episodes may never change: whoever saved a seed relies on them."""
    split = Split(tuple(range(8)), (12, 40, 7, 9, 33, 20, 11, 15))
    fixed = FixedSampler(split, way=3, shot=1, targets=2, rotate=True).draw(seed=7, index=11)
    assert fixed.classes.tolist() == [2, 0, 6]
    assert [images.tolist() for images in fixed.target] == [[2, 6], [9, 2], [4, 5]]
    variable = VariableSampler(split).draw(seed=7, index=11)
    assert variable.classes.tolist() == [6, 1, 3, 7, 0]
    assert [len(images) for images in variable.context] == [4, 27, 5, 7, 7]


def test_images_are_shuffled_within_classes():
    """Each image is as often context as any other: Meta-Dataset's order of the file is not kept."""
    sampler = FixedSampler(Split(tuple(range(5)), (10,) * 5), way=5, shot=1, targets=9)
    first = np.concatenate([np.concatenate(sampler.draw(0, index).context) for index in range(1000)])
    assert np.bincount(first).min() > 400


def test_mixture_draws_sources_uniformly():
    samplers = [FixedSampler(Split(tuple(range(5)), (n,) * 5), 5, 1, 1) for n in (5, 50, 500)]
    draws = [Mixture(samplers).draw(3, index) for index in range(1500)]
    assert min(np.bincount([draw.source for draw in draws])) > 430
    assert all(same(draw, Mixture(samplers).draw(3, index)) for index, draw in enumerate(draws[:20]))
    assert max(images.max() for draw in draws if draw.source == 0 for images in draw.target) < 5


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (lambda split: FixedSampler(split, 7, 1, 1), "7 ways needs as many classes, and the split has 6"),
        (lambda split: FixedSampler(split, 5, 5, 15), "needs 20 images.*class 14 has 3"),
        (lambda split: FixedSampler(split, 0, 1, 1), "way must be at least 1"),
        (lambda split: VariableSampler(split, min_way=8), "at least 8 classes, and the largest.*has 6"),
        (lambda split: VariableSampler(split, max_way=3), "must rise from 1 on, got 5, 3"),
        (lambda split: VariableSampler(split, max_context=30), "must rise from 1 on, got 5, 40 and 30"),
        (lambda split: VariableSampler(split, max_targets=0), "max_targets"),
        (lambda split: VariableSampler(split, log_weights=(1.0, 0.0)), "between -5 and 5"),
        (lambda split: VariableSampler(Split((3, 4, 5, 6, 7), (2, 2, 1, 2, 2))), "class 5 has 1"),
        (lambda split: VariableSampler(Split((), (), (), "bilevel")), "has 0"),
        (lambda split: Mixture([]), "at least one sampler"),
        (lambda split: Mixture([Mixture([VariableSampler(split)])]), "cannot hold another mixture"),
    ],
)
def test_splits_that_are_too_small(sampler, message):
    with pytest.raises(DataError, match=message):
        sampler(Split((10, 11, 12, 13, 14, 15), (20, 20, 20, 20, 3, 20)))


def test_statistics():
    split = Split(tuple(range(10)), (20,) * 10)
    result = statistics(FixedSampler(split, 5, 2, 3), episodes=20)
    assert {name: entry["mean"] for name, entry in result.items()} == {
        "way": 5,
        "context": 10,
        "shot": 2,
        "target": 15,
    }
    assert result["context"]["std"] == 0
    assert result["context"]["quantiles"]["0.5"] == 10
    with pytest.raises(ValueError, match="at least one episode"):
        statistics(FixedSampler(split, 5, 2, 3), episodes=0)


# Mean way and context size of Meta-Dataset's own sampler under the caps of CNAPs, over 4000 of its episodes.
PRINTED = {
    ("train", "ilsvrc_2012"): (16.9, 312),
    ("train", "omniglot"): (19.3, 94),
    ("train", "aircraft"): (22.8, 335),
    ("test", "ilsvrc_2012"): (14.9, 380),
    ("test", "omniglot"): (19.0, 92),
    ("test", "aircraft"): (10.0, 338),
}


@pytest.mark.realdata
@pytest.mark.parametrize(("split", "name"), PRINTED)
def test_statistics_of_meta_dataset(data_root, split, name):
    """Within 3 % of the reference. Omniglot's contexts vary most: 6000 episodes leave a standard error of 1 %."""
    spec = read_spec(data_root / "specs" / f"{name}_dataset_spec.json")
    caps = {"max_way": 50, "max_context": 500} if split == "test" else {}
    episodes = 20_000 if name == "omniglot" else 6000
    found = statistics(VariableSampler(spec.splits[split], **caps), episodes)
    for entry, printed in zip((found["way"], found["context"]), PRINTED[split, name], strict=True):
        assert entry["mean"] == pytest.approx(printed, rel=0.03)
    assert found["target"]["mean"] == pytest.approx(10 * found["way"]["mean"])

"""Episodes as tensors: the images that were drawn, in an order that nothing but the seed decides."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tasknorm.data import (
    Direct,
    Episodes,
    FixedSampler,
    Mixture,
    Spec,
    Split,
    VariableSampler,
    centred,
    scaled,
    signed,
    standard,
    unit,
)
from tasknorm.errors import DataError


class Numbered:
    """Images that say which they are: source, class and number in their first three pixels, then an arrow."""

    def __init__(self, classes=30, images=20, source=0):
        self.spec = Spec(
            "numbered",
            tuple(map(str, range(classes))),
            {"train": Split(tuple(range(classes)), (images,) * classes)},
        )
        self.source = source

    def batch(self, classes, numbers):
        batch = np.zeros((len(classes), 1, 3, 3), np.uint8)
        batch[:, 0, 0, 0], batch[:, 0, 0, 1], batch[:, 0, 0, 2] = self.source, classes, numbers
        batch[:, 0, 1, 0] = 255
        return batch


def identity(x):
    """(source, class, number) of each image."""
    return x[:, 0, 0].tolist()


def check_episode(episode, shots=None):
    every = [tuple(image) for image in identity(episode.context_x) + identity(episode.target_x)]
    assert len(set(every)) == len(every)  # no image twice, so context and target are disjoint
    classes = {}
    for x, y in ((episode.context_x, episode.context_y), (episode.target_x, episode.target_y)):
        for (_, class_id, _), label in zip(identity(x), y.tolist(), strict=True):
            assert classes.setdefault(label, class_id) == class_id  # a label means one class in both sets
    assert sorted(classes) == list(range(episode.way))
    assert len(set(classes.values())) == episode.way
    assert set(episode.target_y.tolist()) == set(episode.context_y.tolist())
    if shots is not None:
        assert torch.bincount(episode.context_y).tolist() == [shots] * episode.way


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10), st.integers(1, 5), st.integers(1, 10), st.integers(0, 2**40), st.integers(0, 2**40))
def test_fixed_episodes_hold_what_they_should(way, shot, targets, seed, index):
    images = Numbered()
    sampler = FixedSampler(images.spec.splits["train"], way, shot, targets)
    check_episode(Episodes(images, sampler, seed)[index], shot)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_variable_episodes_hold_what_they_should(seed, index):
    images = Numbered(classes=45)
    check_episode(Episodes(images, VariableSampler(images.spec.splits["train"]), seed)[index])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 50), st.integers(0, 4), st.integers(0, 4), st.integers(1, 20))
def test_seeds_reproduce_whatever_the_number_of_workers(seed, start, some, others, ahead):
    images = [Numbered(), Numbered(classes=60, source=1)]
    sampler = Mixture([VariableSampler(source.spec.splits["train"]) for source in images])
    first, second = (Episodes(images, sampler, seed, workers, ahead) for workers in (some, others))
    first.position = second.position = start
    for a, b in zip(islice(first, 8), islice(second, 8), strict=False):
        assert all(torch.equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_goes_on_after_a_checkpoint():
    images = Numbered()
    sampler = FixedSampler(images.spec.splits["train"], 5, 1, 3)
    running = Episodes(images, sampler, seed=3, workers=2)
    list(islice(running, 7))
    state = running.state_dict()
    assert state == {"seed": 3, "position": 7}  # episodes prepared ahead do not count
    resumed = Episodes(images, sampler, workers=0)
    resumed.load_state_dict(state)
    expected = Episodes(images, sampler, seed=3)[7]
    assert torch.equal(next(iter(resumed)).target_x, expected.target_x)


def test_a_mixture_uses_the_images_of_the_source_it_drew():
    images = [Numbered(source=source) for source in range(3)]
    sampler = Mixture([FixedSampler(source.spec.splits["train"], 5, 1, 1) for source in images])
    episodes = Episodes(images, sampler)
    drawn = [sampler.draw(0, i).source for i in range(30)]
    assert [identity(episodes[i].context_x)[0][0] for i in range(30)] == drawn
    assert set(drawn) == {0, 1, 2}
    with pytest.raises(DataError, match="source 1 of the mixture, and images were passed for 1"):
        list(islice(Episodes(images[:1], sampler), 30))


def test_turns_each_class_by_its_own_rotation_in_both_sets():
    images = Numbered()
    sampler = FixedSampler(images.spec.splits["train"], 10, 2, 3, rotate=True)
    plain = FixedSampler(images.spec.splits["train"], 10, 2, 3)
    turned, upright = Episodes(images, sampler)[4], Episodes(images, plain)[4]
    rotations = sampler.draw(0, 4).rotations
    assert set(rotations.tolist()) == {0, 1, 2, 3}
    for name in ("context", "target"):
        x, y = getattr(upright, f"{name}_x"), getattr(upright, f"{name}_y")
        expected = torch.stack(
            [torch.rot90(image, int(rotations[label]), (1, 2)) for image, label in zip(x, y, strict=True)]
        )
        assert torch.equal(getattr(turned, f"{name}_x"), expected)


def test_scales_as_the_papers_do():
    x = torch.tensor([0, 51, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    assert unit(x).flatten().tolist() == pytest.approx([0, 0.2, 1])
    assert signed(x).flatten().tolist() == pytest.approx([-1, -0.6, 1])
    assert centred(x).flatten().tolist() == [-127 / 128, -76 / 128, 1.0]
    expected = [(0 - 0.485) / 0.229, (0.2 - 0.456) / 0.224, (1 - 0.406) / 0.225]
    assert standard(x).flatten().tolist() == pytest.approx(expected)
    images = Numbered()
    episode = Episodes(images, FixedSampler(images.spec.splits["train"], 5, 1, 3))[0]
    assert scaled(episode, signed).target_x.min() == -1
    assert scaled(episode).context_y is episode.context_y


def test_images_stay_bytes(data_folder):
    from tasknorm.data import opened

    images = Direct(opened("pets", data_folder), 8)
    episode = Episodes(images, FixedSampler(images.spec.splits["train"], 5, 2, 3))[0]
    assert episode.context_x.dtype == torch.uint8
    assert episode.context_x.shape == (10, 3, 8, 8)


def test_workers_die_with_a_killed_parent(tmp_path):
    script = (
        "import time\n"
        "from itertools import islice\n"
        "from tasknorm.data import Direct, Episodes, FixedSampler, Glyphs\n"
        "images = Direct(Glyphs(), 28)\n"
        "running = iter(Episodes(images, FixedSampler(images.spec.splits['train'], 5, 1, 1), workers=3))\n"
        "next(running)\n"
        "print('running', flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert parent.stdout.readline() == b"running\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(parent.pid, 0)  # nothing of its group is left

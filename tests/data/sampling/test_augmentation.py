"""Augmentation: within its ranges, the same for a seed and task whatever else, and in training only."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from support.data_files import noise
from tasknorm.data import AUGMENTATIONS, Episodes, FixedSampler, Spec, Split, augmented, shifted
from tasknorm.data.sampling.augmentation import coloured, cropped, flipped
from tasknorm.episode import Episode
from tasknorm.errors import DataError

MIDDLE = 0.5  # the number that leaves brightness, contrast and saturation as they are
WHOLE = [1 - 2**-53, 0.5, 0.0, 0.0]  # the numbers of a crop that is all of a square image


def images(seed: int, count: int = 5, channels: int = 3, side: int = 12) -> torch.Tensor:
    return torch.from_numpy(noise(seed, count, channels, side, side))


def task(seed: int = 0, channels: int = 3) -> Episode:
    labels = torch.arange(5)
    return Episode(images(seed, channels=channels), labels, images(seed + 1, channels=channels), labels)


def same(a: Episode, b: Episode) -> bool:
    return torch.equal(a.context_x, b.context_x) and torch.equal(a.target_x, b.target_x)


names = st.sets(st.sampled_from(AUGMENTATIONS), min_size=1)
numbers = st.integers(0, 2**62)


class TestTasks:
    @settings(max_examples=40, deadline=None)
    @given(names, numbers, numbers, st.sampled_from([1, 3]))
    def test_shape_dtype_and_labels_stay_and_nothing_is_written_to(self, chosen, seed, index, channels) -> None:
        before, original = task(channels=channels), task(channels=channels)
        after = augmented(before, chosen, seed, index)
        assert same(before, original)
        for name in ("context", "target"):
            x, y = getattr(after, f"{name}_x"), getattr(after, f"{name}_y")
            assert (x.dtype, x.shape) == (torch.uint8, getattr(before, f"{name}_x").shape)
            assert torch.equal(y, getattr(before, f"{name}_y"))
        assert same(after, augmented(before, sorted(chosen, reverse=True), seed, index))  # in any order

    def test_seed_and_task_decide_and_every_image_is_changed_by_itself(self) -> None:
        equal = images(0, 1).expand(6, -1, -1, -1)
        before = Episode(equal, torch.arange(6), equal, torch.arange(6))
        made = [augmented(before, ["crop", "colour"], *key) for key in ((0, 0), (0, 1), (1, 0))]
        every = [image.numpy().tobytes() for each in made for image in (*each.context_x, *each.target_x)]
        assert len(set(every)) == 36

    def test_the_same_images_are_mirrored_whatever_else_happens(self) -> None:
        before = task()
        alone = augmented(before, ["flip"], 3, 4)
        mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(alone.target_x, before.target_x, strict=True)]
        assert 0 < sum(mirrored) < 5
        cut, both = (augmented(before, chosen, 3, 4) for chosen in (["crop"], ["crop", "flip"]))
        for flip, a, b in zip(mirrored, cut.target_x, both.target_x, strict=True):
            assert torch.equal(a.flip(-1) if flip else a, b)

    def test_threads_of_torch_change_nothing(self) -> None:
        large = Episode(images(0, 8, 3, 96), torch.arange(8), images(1, 8, 3, 96), torch.arange(8))
        before = torch.get_num_threads()
        try:
            made = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                made.append(augmented(large, AUGMENTATIONS, 0, 0))
        finally:
            torch.set_num_threads(before)
        assert same(made[0], made[1])
        assert same(made[0], made[2])

    def test_an_unknown_name_is_refused_at_once(self) -> None:
        with pytest.raises(DataError, match="must be one of crop, flip, colour, got 'spin'"):
            Episodes([], None, augment=["flip", "spin"])


class Textured:
    """Random images: 6 classes of 9, the same whenever they are asked for."""

    spec = Spec("textured", tuple("abcdef"), {"train": Split(tuple(range(6)), (9,) * 6)})

    def batch(self, classes, numbers):
        return np.stack([noise(9 * c + n, 3, 10, 10) for c, n in zip(classes.tolist(), numbers.tolist(), strict=True)])


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_episodes_are_the_same_with_any_workers_and_after_a_resume(workers: int) -> None:
    sampler = FixedSampler(Textured.spec.splits["train"], 3, 2, 2)
    running = Episodes(Textured(), sampler, 7, workers, augment=AUGMENTATIONS)
    found = list(islice(running, 4))
    resumed = Episodes(Textured(), sampler, 0, 1, augment=AUGMENTATIONS)
    resumed.load_state_dict(running.state_dict())
    found += islice(resumed, 2)
    expected = Episodes(Textured(), sampler, 7, augment=AUGMENTATIONS)
    assert all(same(each, expected[index]) for index, each in enumerate(found))
    plain = Episodes(Textured(), sampler, 7)
    assert not any(same(each, plain[index]) for index, each in enumerate(found))
    assert all(same(plain[index], augmented(plain[index], [], 7, index)) for index in range(3))


class TestCrop:
    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4))
    def test_it_shows_the_part_that_its_numbers_say(self, uniforms: list[float]) -> None:
        """Ramps tell where each pixel of the result came from."""
        side = 64
        ramp = torch.linspace(0, 252, side).round().to(torch.uint8)
        x = torch.stack([ramp[:, None].expand(side, side), ramp[None, :].expand(side, side)])[None]
        found = cropped(x, np.array([uniforms])).double()
        down, right = found[0, 0, :, side // 2] / 252, found[0, 1, side // 2] / 252
        height, width = (float(line[-1] - line[0]) for line in (down, right))
        assert (down.diff() >= 0).all()
        assert (right.diff() >= 0).all()
        assert 0.36 < height * width <= 1.001  # 40 to 100 % of the area, less a pixel at the edges
        assert 0.7 < height / width < 1 / 0.7
        room = 1 - np.minimum(1, np.sqrt((0.4 + 0.6 * uniforms[0]) * (4 / 3) ** (2 * uniforms[1] - 1)))
        assert float(down[0]) == pytest.approx(uniforms[2] * room, abs=0.02)

    def test_pillow_cuts_the_same_part(self) -> None:
        side, uniforms = 40, np.array([[0.3, 0.8, 0.4, 0.9]])
        smooth = Image.fromarray(noise(0, 9, 9, 3)).resize((side, side), Image.Resampling.BICUBIC)
        area, shape = 0.4 + 0.6 * 0.3, (4 / 3) ** (2 * 0.8 - 1)
        height, width = (area * shape) ** 0.5, (area / shape) ** 0.5
        top, left = 0.4 * (1 - height), 0.9 * (1 - width)
        box = tuple(side * place for place in (left, top, left + width, top + height))
        expected = np.asarray(smooth.resize((side, side), Image.Resampling.BILINEAR, box)).astype(int)
        found = cropped(torch.from_numpy(np.asarray(smooth).copy()).permute(2, 0, 1)[None], uniforms)
        assert np.abs(found[0].permute(1, 2, 0).numpy() - expected).max() <= 2

    def test_all_of_an_image_is_the_image(self) -> None:
        x = images(0, 3)
        assert torch.equal(cropped(x, np.array([WHOLE] * 3)), x)

    def test_images_need_not_be_square_and_one_pixel_will_do(self) -> None:
        uniforms = np.random.default_rng(0).random((2, 4))
        assert cropped(torch.zeros(2, 3, 5, 9, dtype=torch.uint8), uniforms).shape == (2, 3, 5, 9)
        assert (cropped(torch.full((2, 1, 1, 1), 77, dtype=torch.uint8), uniforms) == 77).all()


def test_flip_mirrors_half_of_the_images_left_to_right() -> None:
    x = images(0, 400, 1, 3)
    found = flipped(x, np.random.default_rng(0).random(400))
    mirrored = [torch.equal(a, b.flip(-1)) for a, b in zip(found, x, strict=True)]
    assert all(flip or torch.equal(a, b) for flip, a, b in zip(mirrored, found, x, strict=True))
    assert 150 < sum(mirrored) < 250


class TestColour:
    @pytest.mark.parametrize(
        ("column", "enhancer"), [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)]
    )
    @pytest.mark.parametrize("uniform", [0.0, 0.2, 0.9])
    def test_each_alone_is_pillows(self, column: int, enhancer: type, uniform: float) -> None:
        uniforms = np.full((1, 3), MIDDLE)
        uniforms[0, column] = uniform
        picture = Image.fromarray(noise(0, 20, 20, 3))
        expected = np.asarray(enhancer(picture).enhance(0.6 + 0.8 * uniform)).astype(int)
        found = coloured(torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None], uniforms)
        assert (
            np.abs(found[0].permute(1, 2, 0).numpy() - expected).max() <= 1
        )  # Pillow rounds down, and rounds the mean

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.floats(0, 1, exclude_max=True), min_size=3, max_size=3), st.integers(0, 99))
    def test_all_together_are_one_after_the_other(self, uniforms: list[float], seed: int) -> None:
        x = images(seed, 1).clamp(60, 130)  # so that nothing is cut off on the way
        brightness, contrast, saturation = (0.6 + 0.8 * u for u in uniforms)
        weights = np.array([0.299, 0.587, 0.114])
        expected = brightness * x[0].numpy().astype(np.float64)
        mean = np.tensordot(weights, expected, 1).mean()
        expected = mean + contrast * (expected - mean)
        grey = np.tensordot(weights, expected, 1)
        expected = (grey + saturation * (expected - grey)).clip(0, 255)
        assert np.abs(coloured(x, np.array([uniforms]))[0].numpy() - expected).max() < 0.51

    def test_the_middle_changes_nothing_and_the_ends_stay_bytes(self) -> None:
        x = images(0, 4)
        x[0], x[1] = 0, 255
        assert torch.equal(coloured(x, np.full((4, 3), MIDDLE)), x)
        brightest = coloured(x, np.full((4, 3), 1 - 2**-53))
        assert brightest[0].max() == 0  # black stays black
        assert brightest[1].min() == 255  # and white does not run over

    def test_saturation_leaves_grey_as_it_is(self) -> None:
        """One channel has brightness and contrast only, and three equal ones stay equal."""
        uniforms = np.random.default_rng(1).random((5, 3))
        grey = images(0, 5, channels=1)
        without = coloured(grey, uniforms)
        other = np.column_stack([uniforms[:, :2], 1 - uniforms[:, 2]])
        assert torch.equal(without, coloured(grey, other))
        assert not torch.equal(without, grey)
        three = coloured(grey.expand(-1, 3, -1, -1), uniforms)
        assert torch.equal(three[:, :1].expand_as(three), three)
        assert (three[:, :1].int() - without.int()).abs().max() <= 1


def test_pretraining_shifts_and_mirrors_each_image() -> None:
    random = torch.Generator().manual_seed(0)
    x = torch.arange(4 * 25, dtype=torch.uint8).view(4, 1, 5, 5)
    assert torch.equal(shifted(x, 0, False, random), x)
    mirrored = shifted(x, 0, True, random)
    assert {torch.equal(a, b) or torch.equal(a, b.flip(-1)) for a, b in zip(mirrored, x, strict=True)} == {True}
    moved = shifted(x, 2, False, random)
    assert moved.shape == x.shape
    assert not torch.equal(moved, x)

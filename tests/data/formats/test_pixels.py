"""Decoding and resizing."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from support.data_files import encoded, noise
from tasknorm.data.formats.pixels import antialiased, bilinear, crop, decoded, lanczos, nearest
from tasknorm.errors import DataError


@pytest.mark.parametrize("form", ["PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM"])
@pytest.mark.parametrize("channels", [1, 3])
def test_decodes_every_format_to_the_channels_asked_for(form, channels):
    for shape in ((9, 7, 3), (9, 7)):
        image = decoded(encoded(noise(0, *shape), form), channels, "here")
        assert image.shape == (9, 7, channels)
        assert image.dtype == np.uint8


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("shape", [(64, 48, 3), (64, 48), (17, 31, 3)])
def test_jpegs_decode_as_pillow_decodes_them(options, shape):
    smooth = Image.fromarray(noise(1, *shape)).resize(shape[1::-1]).rotate(10)
    file = io.BytesIO()
    smooth.save(file, "JPEG", **options)
    expected = np.asarray(Image.open(file).convert("RGB"))
    np.testing.assert_array_equal(decoded(file.getvalue(), 3, "here"), expected)


def test_a_cmyk_jpeg_is_left_to_pillow():
    file = io.BytesIO()
    Image.fromarray(noise(2, 16, 16, 4), "CMYK").save(file, "JPEG")
    np.testing.assert_array_equal(decoded(file.getvalue(), 3, "x"), np.asarray(Image.open(file).convert("RGB")))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP"])
def test_a_truncated_image_is_an_error_that_names_it(form):
    data = encoded(noise(0, 64, 64, 3), form)
    for length in (0, 1, 10, len(data) // 2):
        with pytest.raises(
            DataError, match=rf"cat/1.img: the image does not decode .*, got {length:,} bytes.*remove it"
        ):
            decoded(data[:length], 3, "cat/1.img")


def test_what_is_no_image_is_an_error():
    for data in (
        b"",
        b"hello",
        b"\xff\xd8\xff\xc0",
        b"\xff\xd8\xff\xe0" + b"\0" * 40,
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
    ):
        with pytest.raises(DataError, match="does not decode"):
            decoded(data, 3, "x")


def png_that_claims(width, height):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [8_000, 10_000, 50_000])
def test_refuses_a_decompression_bomb(side):
    with pytest.raises(DataError, match=r"bomb.png: (an|the) image"):
        decoded(png_that_claims(side, side), 3, "bomb.png")
    jpeg = bytearray(encoded(noise(0, 8, 8, 3), "JPEG"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", side, side)
    with pytest.raises(DataError, match=r"bomb.jpg: an image may have 50,000,000 pixels"):
        decoded(bytes(jpeg), 3, "bomb.jpg")


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 5), st.data())
def test_damaged_jpegs_decode_or_say_so(seed, data):
    jpeg = bytearray(encoded(noise(seed, 16, 16, 3), "JPEG"))
    for _ in range(data.draw(st.integers(1, 4))):
        jpeg[data.draw(st.integers(0, len(jpeg) - 1))] = data.draw(st.integers(0, 255))
    try:
        image = decoded(bytes(jpeg), 3, "x")
    except DataError:
        return
    assert image.shape[2] == 3


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3]), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_bilinear_is_torchs_with_aligned_corners(height, width, channels, size):
    image = noise(height * width, height, width, channels)
    planes = torch.from_numpy(image).permute(2, 0, 1)[None].double()
    exact = torch.nn.functional.interpolate(planes, (size, size), mode="bilinear", align_corners=True)
    found = bilinear(image, size).transpose(2, 0, 1)
    # Places up to 40 are float32 numbers: each axis may be off by 40 * 2^-23 pixels, and a pixel by 255 tones.
    assert np.abs(found - exact[0].numpy()).max() <= 0.5 + 2 * 255 * 40 * 2**-23


def test_bilinear_keeps_corners():
    image = noise(3, 20, 30, 3)
    small = bilinear(image, 8)
    np.testing.assert_array_equal(small[[0, 0, -1, -1], [0, -1, 0, -1]], image[[0, 0, -1, -1], [0, -1, 0, -1]])


def test_nearest_invents_no_values():
    image = np.where(noise(4, 105, 105, 1) > 127, 255, 0).astype(np.uint8)
    one_bit = Image.fromarray(image[:, :, 0]).convert("1")
    expected = np.asarray(one_bit.resize((28, 28), Image.Resampling.LANCZOS).convert("L"))  # ignored for one bit
    np.testing.assert_array_equal(nearest(image, 28)[:, :, 0], expected)


def test_lanczos_is_pillows():
    image = noise(5, 32, 32, 3)
    expected = np.asarray(Image.fromarray(image).resize((84, 84), Image.Resampling.LANCZOS))
    np.testing.assert_array_equal(lanczos(image, 84), expected)


def test_an_image_of_the_right_size_is_left_alone():
    image = noise(6, 10, 10, 3)
    for resize in (bilinear, nearest, lanczos, antialiased, crop):
        np.testing.assert_array_equal(resize(image, 10), image)


class TestCrop:
    @pytest.mark.parametrize(("height", "width", "size"), [(40, 80, 10), (90, 30, 10), (12, 20, 24), (50, 150, 100)])
    @pytest.mark.parametrize("channels", [1, 3])
    def test_it_is_the_shorter_side_scaled_and_the_centre_cut(self, height, width, size, channels):
        image = noise(7, height, width, channels)
        scale = size / min(height, width)
        tall, wide = round(height * scale), round(width * scale)
        picture = Image.fromarray(image[:, :, 0] if channels == 1 else image)
        whole = np.asarray(picture.resize((wide, tall), Image.Resampling.BILINEAR)).reshape(tall, wide, channels)
        top, left = (tall - size) // 2, (wide - size) // 2
        np.testing.assert_array_equal(crop(image, size), whole[top : top + size, left : left + size])

    @settings(max_examples=40, deadline=None)
    @given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40))
    def test_it_is_the_definition_in_numpy(self, height, width, size):
        image = noise(height, height, width, 1)
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        step = side / size

        def rows(count: int, start: int) -> np.ndarray:
            reach = max(1, step)
            centres = start + (np.arange(size) + 0.5) * step
            weights = np.maximum(0, 1 - np.abs(np.arange(count) + 0.5 - centres[:, None]) / reach)
            return weights / weights.sum(1, keepdims=True)

        expected = rows(height, top) @ image[:, :, 0].astype(np.float64) @ rows(width, left).T
        found = crop(image, size)
        assert found.shape == (size, size, 1)
        assert np.abs(found[:, :, 0] - expected).max() <= 1.02  # rounded after rows and after columns

    def test_a_circle_stays_round(self):
        y, x = np.mgrid[:120, :200]
        disc = np.where((y - 59.5) ** 2 + (x - 99.5) ** 2 < 40**2, 255, 0).astype(np.uint8)[:, :, None]
        found = crop(disc, 60)[:, :, 0] > 127
        assert found.any(0).sum() == found.any(1).sum() == 40
        stretched = antialiased(disc, 60)[:, :, 0] > 127
        assert stretched.any(0).sum() < 30  # what it is about

    def test_of_a_square_it_is_the_whole_and_of_the_right_height_a_cut(self):
        square, wide = noise(8, 30, 30, 3), noise(9, 16, 41, 3)
        np.testing.assert_array_equal(crop(square, 12), antialiased(square, 12))
        np.testing.assert_array_equal(crop(wide, 16), wide[:, 12:28])

    def test_a_strip_needs_no_memory(self):
        strip = np.full((1, 2_000_000, 3), 9, np.uint8)
        assert (crop(strip, 96) == 9).all()
        assert (crop(strip.transpose(1, 0, 2), 96) == 9).all()

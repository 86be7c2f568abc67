"""Every kind of image file is read as a viewer shows it, or refused by name."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from support.data_files import noise
from tasknorm.data import DataError
from tasknorm.data.formats.pixels import FORMATS, decoded

RED, GREEN, BLUE, GREY = (200, 30, 40), (20, 180, 60), (10, 50, 220), (90, 90, 90)


def file_of(image: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def ramp(bits: int) -> np.ndarray:
    """All tones from black to white, 16 in a row."""
    return np.linspace(0, 2**bits - 1, 256).round().astype(np.uint16).reshape(16, 16)


EIGHT_BITS = np.arange(256).reshape(16, 16)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
@pytest.mark.parametrize("channels", [1, 3])
def test_16_bit_grey_keeps_its_tones(form, channels):
    written = b"P5 16 16 65535\n" + ramp(16).astype(">u2").tobytes()  # as not every Pillow that reads it writes it
    data = written if form == "PPM" else file_of(Image.fromarray(ramp(16)), form)
    found = decoded(data, channels, "x")
    for channel in range(channels):
        np.testing.assert_array_equal(found[:, :, channel], EIGHT_BITS)


def test_16_bit_tiffs_of_either_byte_order_and_direction_keep_their_tones():
    big_endian = Image.frombytes("I;16B", (16, 16), ramp(16).astype(">u2").tobytes())
    np.testing.assert_array_equal(decoded(file_of(big_endian, "TIFF"), 1, "x")[:, :, 0], EIGHT_BITS)
    white_first = file_of(Image.fromarray(ramp(16)), "TIFF", tiffinfo={262: 0})
    np.testing.assert_array_equal(decoded(white_first, 1, "x")[:, :, 0], 255 - EIGHT_BITS)


def test_a_12_bit_tiff_keeps_its_tones():
    tones = ramp(12).ravel().astype(int)
    rows = b"".join(bytes((a >> 4, (a & 15) << 4 | b >> 8, b & 255)) for a, b in tones.reshape(-1, 2).tolist())
    entries = {256: 16, 257: 16, 258: 12, 259: 1, 262: 1, 273: 8, 277: 1, 278: 16, 279: len(rows)}
    directory = struct.pack("<H", len(entries))
    directory += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items()) + bytes(4)
    data = b"II*\0" + struct.pack("<I", 8 + len(rows)) + rows + directory
    np.testing.assert_array_equal(decoded(data, 1, "x")[:, :, 0], EIGHT_BITS)


def test_16_bit_colour_keeps_its_tones():
    rows = b"".join(b"\0" + np.stack([ramp(16)[y]] * 3, 1).astype(">u2").tobytes() for y in range(16))
    found = decoded(png(16, 16, 16, 2, rows), 3, "x").astype(int)
    assert np.abs(found - EIGHT_BITS[:, :, None]).max() <= 1  # Pillow cuts off where others round


def png(width, height, bits, colour_type, rows, **chunks):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, bits, colour_type, 0, 0, 0)
    extra = b"".join(chunk(kind.encode(), content) for kind, content in chunks.items())
    content = chunk(b"IHDR", header) + extra + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + content


def test_one_transparent_tone_is_white():
    eight = png(2, 1, 8, 0, b"\0" + bytes((10, 77)), tRNS=struct.pack(">H", 77))
    assert decoded(eight, 3, "x").tolist() == [[[10] * 3, [255] * 3]]
    sixteen = png(2, 1, 16, 0, b"\0" + struct.pack(">HH", 2570, 30000), tRNS=struct.pack(">H", 30000))
    assert decoded(sixteen, 1, "x").tolist() == [[[10], [255]]]


def palette_image() -> Image.Image:
    image = Image.fromarray(np.array([[0, 1], [2, 3]], np.uint8)).convert("P")
    image.putpalette([value for colour in (RED, GREEN, BLUE, GREY) for value in colour])
    image.putdata([0, 1, 2, 3])
    return image


@pytest.mark.parametrize("form", ["PNG", "GIF", "TIFF", "BMP"])
def test_a_palette_gives_its_colours(form):
    assert decoded(file_of(palette_image(), form), 3, "x").tolist() == [
        [list(RED), list(GREEN)],
        [list(BLUE), list(GREY)],
    ]


@pytest.mark.parametrize("form", ["PNG", "GIF"])
def test_a_transparent_colour_of_a_palette_is_white(form):
    found = decoded(file_of(palette_image(), form, transparency=2), 3, "x")
    assert found.tolist() == [[list(RED), list(GREEN)], [[255] * 3, list(GREY)]]


def test_a_palette_with_an_alpha_for_each_colour_lies_on_white():
    data = file_of(palette_image(), "PNG", transparency=bytes((255, 0, 128, 255)))
    half_blue = [round((128 * value + 127 * 255) / 255) for value in BLUE]
    np.testing.assert_allclose(decoded(data, 3, "x"), [[RED, [255] * 3], [half_blue, GREY]], atol=1)


@pytest.mark.parametrize("form", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_alpha_lies_on_white(form, mode):
    pixels = noise(0, 8, 8, len(mode))
    pixels[0, :, -1], pixels[1, :, -1] = 0, 255
    data = file_of(Image.fromarray(pixels, mode), form, **({"lossless": True} if form == "WEBP" else {}))
    colours, alpha = pixels[:, :, :-1].astype(float), pixels[:, :, -1:] / 255
    expected = np.broadcast_to(colours * alpha + 255 * (1 - alpha), (8, 8, 3))
    np.testing.assert_allclose(decoded(data, 3, "x"), expected, atol=1)
    if mode == "LA":
        np.testing.assert_allclose(decoded(data, 1, "x"), expected[:, :, :1], atol=1)


def test_one_bit_is_black_and_white():
    bits = noise(1, 9, 11) > 127
    for form in ("PNG", "TIFF", "BMP", "PPM", "GIF"):
        found = decoded(file_of(Image.fromarray(bits), form), 3, "x")
        np.testing.assert_array_equal(found, 255 * np.stack([bits] * 3, 2))


def cmyk_colours() -> tuple[np.ndarray, np.ndarray]:
    """Four inks in blocks of 16 pixels, and the colours that they print: (1 - ink) (1 - black)."""
    inks = np.array([[0, 0, 0, 0], [255, 0, 0, 0], [0, 200, 100, 50], [30, 30, 30, 200]])
    colours = 255 * (1 - inks[:, :3] / 255) * (1 - inks[:, 3:] / 255)
    blocks = np.repeat(np.repeat(inks[None], 16, 0), 16, 1).astype(np.uint8)
    return blocks, np.repeat(np.repeat(colours[None], 16, 0), 16, 1)


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_gives_the_colours_that_it_prints(form):
    inks, colours = cmyk_colours()
    data = file_of(Image.fromarray(inks, "CMYK"), form, **({"quality": 100} if form == "JPEG" else {}))
    np.testing.assert_allclose(decoded(data, 3, "x"), colours, atol=4)


def test_a_ycck_jpeg_gives_the_colours_that_it_prints():
    """Adobe inverts all inks before it takes red as 255 - cyan and so on: twice inverted, red is cyan's number."""
    inks, colours = cmyk_colours()
    red, green, blue, black = np.moveaxis(inks.astype(float), 2, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    stored = np.stack([luma, 128 + (blue - luma) / 1.772, 128 + (red - luma) / 1.402, 255 - black], 2)
    # Pillow inverts what it writes as CMYK, so it is given the inverse; then the marker is made to say YCCK.
    written = Image.fromarray(255 - stored.round().clip(0, 255).astype(np.uint8), "CMYK")
    data = bytearray(file_of(written, "JPEG", quality=100))
    at = data.index(b"Adobe") + 11
    assert data[at] == 0
    data[at] = 2
    np.testing.assert_allclose(decoded(bytes(data), 3, "x"), colours, atol=5)


@pytest.mark.parametrize(("form", "options"), [("GIF", {}), ("PNG", {}), ("WEBP", {"lossless": True}), ("TIFF", {})])
def test_an_animation_is_its_first_frame(form, options):
    frames = [Image.new("RGB", (6, 5), colour) for colour in (RED, GREEN, BLUE)]
    data = file_of(frames[0], form, save_all=True, append_images=frames[1:], **options)
    assert Image.open(io.BytesIO(data)).n_frames == 3
    assert (decoded(data, 3, "x") == RED).all()


def corners(upright: np.ndarray) -> list[list[int]]:
    """Colours near the four corners, clockwise from the top left."""
    return [upright[y, x].tolist() for y, x in ((4, 4), (4, -5), (-5, -5), (-5, 4))]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize(
    ("orientation", "clockwise"),
    [  # what the stored corners are once upright, clockwise from the top left
        (1, "ABCD"), (2, "BADC"), (3, "CDAB"), (4, "DCBA"), (5, "ADCB"), (6, "DABC"), (7, "CBAD"), (8, "BCDA"),
    ],
)  # fmt: skip
def test_a_photo_of_a_turned_camera_is_upright(form, orientation, clockwise):
    stored = np.zeros((32, 48, 3), np.uint8)
    colours = {"A": RED, "B": GREEN, "C": BLUE, "D": GREY}
    stored[:16, :24], stored[:16, 24:], stored[16:, 24:], stored[16:, :24] = colours.values()
    exif = Image.Exif()
    exif[274] = orientation
    options = {"tiffinfo": {274: orientation}} if form == "TIFF" else {"exif": exif}
    options |= {"quality": 95} if form == "JPEG" else {"lossless": True} if form == "WEBP" else {}
    data = file_of(Image.fromarray(stored), form, **options)
    found = decoded(data, 3, "x", upright=True)
    assert found.shape == ((48, 32, 3) if orientation > 4 else (32, 48, 3))
    np.testing.assert_allclose(corners(found), [colours[corner] for corner in clockwise], atol=4)


def test_the_papers_images_are_not_turned():
    exif = Image.Exif()
    exif[274] = 6
    data = file_of(Image.fromarray(noise(0, 32, 48, 3)), "JPEG", exif=exif)
    assert decoded(data, 3, "x").shape == (32, 48, 3)


@pytest.mark.parametrize("block", [b"Exif\0\0", b"Exif\0\0II*\0\xff\xff\xff\xff", b"Exif\0\0" + bytes(range(64))])
@pytest.mark.filterwarnings("ignore")
def test_a_broken_exif_block_turns_nothing(block):
    data = file_of(Image.new("RGB", (8, 4), RED), "JPEG", exif=block)
    assert decoded(data, 3, "x", upright=True).shape == (4, 8, 3)


@pytest.mark.parametrize(
    ("image", "kind"),
    [
        (Image.fromarray(np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)), "32-bit floats"),
        (Image.fromarray(np.arange(64, dtype=np.int32).reshape(8, 8) * 1000), "32-bit integers"),
        (Image.new("LAB", (8, 8)), "Lab colours"),
    ],
)
def test_numbers_that_are_no_tones_are_refused_by_name(image, kind):
    with pytest.raises(DataError, match=rf"scan\.tif: images of {kind} are not read, .*; save it with 8"):
        decoded(file_of(image, "TIFF"), 3, "scan.tif")


@pytest.mark.parametrize("brand", [b"heic", b"mif1", b"msf1"])
def test_heic_is_refused_with_the_way_to_convert_it(brand):
    data = struct.pack(">I", 24) + b"ftyp" + brand + bytes(4) + b"mif1heic" + bytes(100)
    with pytest.raises(DataError, match=r"IMG_1\.HEIC: HEIC, HEIF .* not read here; convert it to JPEG first: `magick"):
        decoded(data, 3, "IMG_1.HEIC")


@pytest.mark.skipif("AVIF" not in FORMATS, reason="this Pillow reads no AVIF, which is then refused like HEIC")
def test_avif_is_read_where_pillow_reads_it():
    found = decoded(file_of(Image.new("RGB", (16, 16), RED), "AVIF", quality=100), 3, "x")
    assert np.abs(found.astype(int) - RED).max() <= 3


def test_an_empty_file_says_so_and_messages_are_the_same_each_time():
    with pytest.raises(DataError, match=r"x: the image does not decode \(the file is empty\), got 0 bytes"):
        decoded(b"", 3, "x")
    with pytest.raises(DataError, match=r"\(its first bytes are b'hello wo'\)"):
        decoded(b"hello world", 3, "x")


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("GIF", {}), ("BMP", {}), ("WEBP", {}),
        ("WEBP", {"lossless": True}), ("TIFF", {}), ("TIFF", {"compression": "tiff_lzw"}), ("PPM", {}),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_file_cut_anywhere_is_refused_or_whole(form, options):
    smooth = Image.fromarray(noise(0, 8, 8, 3)).resize((40, 40), Image.Resampling.BICUBIC)
    data = file_of(smooth, form, **options)
    whole = decoded(data, 3, "x")
    refused = []
    for length in (*range(0, len(data), max(1, len(data) // 60)), *range(len(data) - 12, len(data))):
        try:
            found = decoded(data[:length], 3, "photo")
        except DataError as error:
            refused.append(str(error))
        else:
            np.testing.assert_array_equal(found, whole, err_msg=f"cut at {length} of {len(data)}")
    assert len(refused) > 30
    assert all(message.startswith("photo: the image does not decode") for message in refused)

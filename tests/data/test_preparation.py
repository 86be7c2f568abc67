"""Images as they are become what the net was trained on, to the last bit."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from pydantic import ValidationError

from support.data_files import encoded, noise, write_omniglot
from support.photos import write_photos
from tasknorm.data import SCALINGS, Cached, DataError, Folder, Preparation, Prepared, class_pictures, opened
from tasknorm.data.formats.pixels import RESIZES
from tasknorm.data.preparation import listed_pictures

SCALES = pytest.mark.parametrize("scale", SCALINGS)


def of(source, size: int = 28, channels: int = 3, scale: str = "unit", resize: str | None = None) -> Preparation:
    return Preparation.of(source, size, channels, scale, resize)


def rows(source) -> list[tuple[int, int]]:
    """Class and number of every image."""
    return [
        (class_id, number)
        for split in source.spec.splits.values()
        for class_id, count in zip(split.classes, split.images, strict=True)
        for number in range(count)
    ]


def cached(source, size: int, folder: Path) -> torch.Tensor:
    """All images as training gets them, bytes `(images, channels, size, size)`."""
    classes, numbers = (np.array(column) for column in zip(*rows(source), strict=True))
    return torch.from_numpy(Cached(source, size, folder=folder).batch(classes, numbers))


def files_of(source) -> list[Path]:
    """The files of the same images in the same order."""
    return [Path(source.where(*row)) for row in rows(source)]


def resized(source, class_id: int, number: int, size: int) -> torch.Tensor:
    """One image as the source resizes it, bytes `(channels, size, size)`."""
    return torch.from_numpy(source.resize(source.image(class_id, number), size).copy()).permute(2, 0, 1)


class TestAsInTraining:
    @SCALES
    def test_photos_of_ones_own(self, scale: str, tmp_path: Path) -> None:
        write_photos(tmp_path / "photos", {"a": 1, "b": 2, "c": 3}, 6)
        source = Folder(tmp_path / "photos")
        prepared = of(source, 32, scale=scale)(files_of(source))
        assert torch.equal(prepared, SCALINGS[scale](cached(source, 32, tmp_path)))

    def test_photos_that_viewers_turn_and_blend(self, tmp_path: Path) -> None:
        """EXIF orientation, 16 bits, palette, transparency, CMYK, grey."""
        folder = tmp_path / "odd" / "one"
        folder.mkdir(parents=True)
        (tmp_path / "odd" / "two").mkdir()
        image = Image.fromarray(noise(0, 40, 50, 3))
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(folder / "turned.jpg", exif=exif)
        image.convert("P").save(folder / "palette.png", transparency=3)
        image.convert("RGBA").save(folder / "alpha.png")
        Image.fromarray(noise(1, 40, 50).astype(np.uint16) * 257).save(folder / "deep.png")
        image.convert("CMYK").save(folder / "print.jpg")
        image.convert("L").save(folder / "grey.webp", lossless=True)
        image.convert("1").save(tmp_path / "odd" / "two" / "bits.bmp")
        source = Folder(tmp_path / "odd")
        pixels = of(source, 24).pixels(files_of(source))
        assert torch.equal(pixels, cached(source, 24, tmp_path))
        turned = files_of(source).index(folder / "turned.jpg")
        upright = Image.open(folder / "turned.jpg").transpose(Image.Transpose.ROTATE_270)
        assert torch.equal(pixels[turned], of(source, 24).pixels([np.asarray(upright)])[0])

    @pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
    def test_cropped_photos_are_turned_before_they_are_cut(self, form: str, tmp_path: Path) -> None:
        """All 8 EXIF orientations; the oracle is Pillow's `exif_transpose` and a cut by hand."""
        (tmp_path / "photos" / "cat").mkdir(parents=True)
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x0112] = orientation
            options = {"tiffinfo": {0x0112: orientation}} if form == "TIFF" else {"exif": exif}
            file = tmp_path / "photos" / "cat" / f"{orientation}.{form.lower()}"
            Image.fromarray(noise(orientation, 16, 28, 3)).save(file, form, **options)
        source = Folder(tmp_path / "photos")
        found = of(source, 16, resize="crop").pixels(files_of(source))
        images = Cached(source, 16, folder=tmp_path / "cache", resize="crop")
        assert torch.equal(found, torch.from_numpy(images.batch(np.zeros(8, np.int64), np.arange(8))))
        for orientation, pixels in enumerate(found, 1):
            stored = Image.open(tmp_path / "photos" / "cat" / f"{orientation}.{form.lower()}")
            stored.load()  # a TIFF is turned by Pillow then
            upright = np.asarray(ImageOps.exif_transpose(stored).convert("RGB"))
            assert upright.shape == ((28, 16, 3) if orientation > 4 else (16, 28, 3))
            cut = upright[6:22] if orientation > 4 else upright[:, 6:22]
            np.testing.assert_array_equal(pixels.permute(1, 2, 0).numpy(), cut)

    def test_omniglot_is_white_on_black_for_the_net(self, tmp_path: Path) -> None:
        write_omniglot(tmp_path / "omniglot.zip")
        source = opened("omniglot", tmp_path)
        preparation = of(source, 28, 1)
        assert preparation.inverted
        assert preparation.resize == "nearest"
        name = source.where(7, 0).split(":")[1]
        with zipfile.ZipFile(tmp_path / "omniglot.zip") as archive:
            pixels = preparation.pixels([archive.read(name)])
        assert torch.equal(pixels[0], resized(source, 7, 0, 28))
        cut = of(source, 28, 1, resize="crop")
        assert (cut.inverted, cut.resize) == (True, "crop")
        assert not Preparation.of(opened("glyphs"), 28, 1, "unit").inverted

    def test_a_rule_that_was_asked_for_wins_over_the_sources(self) -> None:
        source = opened("glyphs")  # whose bilinear rule becomes anti-aliased for photos
        found = {resize: of(source, 28, 1, resize=resize).resize for resize in (None, *RESIZES)}
        assert found == {None: "antialiased"} | {resize: resize for resize in RESIZES}

    def test_glyphs_need_no_resizing(self) -> None:
        source = opened("glyphs")
        pixels = of(source, 28, 1).pixels([source.image(5, 3)])
        assert torch.equal(pixels[0, 0], torch.from_numpy(source.image(5, 3)[:, :, 0]))

    @pytest.mark.realdata
    @pytest.mark.parametrize(
        ("name", "size", "channels"), [("mini_imagenet", 40, 3), ("omniglot", 28, 1), ("vgg_flower", 64, 3)]
    )
    def test_real_images(self, name: str, size: int, channels: int, data_root: Path) -> None:
        source = opened(name, data_root)
        class_id, preparation = source.spec.splits["test"].classes[0], Preparation.of(source, size, channels, "signed")
        tree = source._trees[-1] if name == "omniglot" else source.tree
        for number in range(5):
            inside = source.where(class_id, number).split(".zip:")[1]
            found = preparation([tree.read(inside)])
            assert torch.equal(found[0], SCALINGS["signed"](resized(source, class_id, number, size)))


class TestForms:
    """A file, its bytes, Pillow's image of it, an array and a tensor are the same image."""

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("shape", [(30, 20), (30, 20, 3), (30, 20, 4)])
    def test_all_forms_agree(self, shape: tuple[int, ...], channels: int, tmp_path: Path) -> None:
        array = noise(0, *shape)
        (tmp_path / "a.png").write_bytes(encoded(array))
        tensor = torch.from_numpy(array)
        tensor = tensor if tensor.ndim == 2 else tensor.permute(2, 0, 1)
        forms = [str(tmp_path / "a.png"), tmp_path / "a.png", encoded(array), Image.fromarray(array), array, tensor]
        forms += [array.astype(np.float32) / 255, tensor.double() / 255]
        pixels = Preparation(size=16, channels=channels).pixels(forms)
        assert all(torch.equal(each, pixels[0]) for each in pixels)

    def test_batches_and_single_images(self, tmp_path: Path) -> None:
        preparation, arrays = Preparation(size=8, channels=3), noise(0, 2, 9, 9, 3)
        expected = preparation.pixels(list(arrays))
        assert torch.equal(preparation.pixels(arrays), expected)
        assert torch.equal(preparation.pixels(torch.from_numpy(arrays).permute(0, 3, 1, 2)), expected)
        assert len(listed_pictures("a.png")) == len(listed_pictures(b"x")) == len(listed_pictures(Path("a"))) == 1
        assert preparation.pixels([]).shape == (0, 3, 8, 8)
        assert torch.equal(preparation.pixels(Prepared(expected)), expected)

    def test_the_callers_array_stays(self) -> None:
        array = noise(0, 9, 9)
        before = array.copy()
        Preparation(size=9, channels=1, inverted=True).pixels([array])
        assert (array == before).all()

    @pytest.mark.parametrize(
        ("image", "message"),
        [
            (7, "must be a path, bytes of an image file, .* got int"),
            (np.zeros((3, 9, 9), np.uint8), r"an array must have axes .*, got shape \(3, 9, 9\)"),
            (torch.zeros(9, 9, 3), r"a tensor must have axes .*, got shape \(9, 9, 3\)"),
            (np.zeros((0, 9), np.uint8), "got shape"),
            (np.zeros((9, 9), np.int64), "bytes .uint8., or floats from 0 to 1, got int64"),
            (np.full((9, 9), 200.0), "floats must be from 0 to 1, got 200 to 200; divide bytes by 255"),
            (np.full((9, 9), np.nan), "from 0 to 1, got nan"),
            (torch.full((1, 9, 9), -1.0), "from 0 to 1, got -1"),
            (b"", "image 1: the image does not decode .the file is empty"),
            (b"GIF89a", "image 1: the image does not decode"),
            ("nowhere.png", "nowhere.png: the image cannot be read .there is no such file"),
            (Path("/dev/zero"), "not a regular file"),
            (np.zeros((9000, 9000), np.uint8), "50,000,000 pixels at most"),
            (Image.new("F", (4, 4)), "32-bit floats are not read"),
        ],
    )
    def test_what_is_no_image_is_refused(self, image: object, message: str) -> None:
        with pytest.raises(DataError, match=message):
            Preparation(size=8, channels=3).pixels([noise(0, 4, 4), image])

    @pytest.mark.parametrize("images", [np.zeros((9, 9, 3), np.uint8), torch.zeros(3, 9, 9)])
    def test_one_array_may_not_be_mistaken_for_several(self, images: object) -> None:
        with pytest.raises(DataError, match="several images need four axes"):
            Preparation(size=8, channels=3).pixels(images)

    def test_prepared_images_of_another_preparation_are_refused(self) -> None:
        with pytest.raises(DataError, match=r"prepared images must be bytes of shape \(1, 8, 8\)"):
            Preparation(size=8, channels=1).pixels(Prepared(torch.zeros(2, 3, 8, 8, dtype=torch.uint8)))


@pytest.mark.parametrize(
    "values",
    [
        {"size": 0},
        {"size": 10**9},
        {"channels": 2},
        {"scale": "none"},
        {"resize": "magic"},
        {"more": 1},
        {"channels": 1, "scale": "standard"},
    ],
)
def test_impossible_preparations_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Preparation.model_validate({"size": 28, "channels": 3} | values)


def test_every_resize_rule_and_scaling_has_its_name() -> None:
    assert set(RESIZES) == set(Preparation.model_fields["resize"].annotation.__args__)
    assert set(SCALINGS) == set(Preparation.model_fields["scale"].annotation.__args__)


class TestClassPictures:
    def test_a_subfolder_for_each_class(self, tmp_path: Path) -> None:
        write_photos(tmp_path / "photos", {"Ärger 📷": 1, "b b": 2}, 3)
        (tmp_path / "photos" / "b b" / "notes.txt").write_text("no image")
        found = class_pictures(tmp_path / "photos")
        assert {name: len(files) for name, files in found.items()} == {"b b": 3, "Ärger 📷": 3}

    def test_bad_images_are_left_out_if_asked_for(self, tmp_path: Path) -> None:
        write_photos(tmp_path / "photos", {"a": 1, "b": 2}, 2)
        (tmp_path / "photos" / "a" / "bad.jpg").write_bytes(b"no")
        told: list[str] = []
        assert len(class_pictures(tmp_path / "photos", told.append)["a"]) == 2
        assert len(told) == 1
        assert "bad.jpg" in told[0]

    @pytest.mark.parametrize(("name", "message"), [("none", "correct the path"), ("file.zip", "unpack it")])
    def test_no_folder(self, name: str, message: str, tmp_path: Path) -> None:
        (tmp_path / "file.zip").write_bytes(b"")
        with pytest.raises(DataError, match=f"no folder of this name; {message}"):
            class_pictures(tmp_path / name)

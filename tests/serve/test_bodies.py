"""Bodies: what browsers, curl and programs send, and what nobody should."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.service import FORM, form
from tasknorm.serve import Limits
from tasknorm.serve.bodies import Upload, read_uploads
from tasknorm.serve.refusals import RefusedError


def read(content_type: str, body: bytes, *, by_class: bool = True, **limits: float) -> list[Upload]:
    return read_uploads(content_type, body, Limits(**limits), by_class=by_class)


def refused(status: int, rule: str, content_type: str, body: bytes, *, by_class: bool = True, **limits: float) -> None:
    with pytest.raises(RefusedError, match=rule) as caught:
        read(content_type, body, by_class=by_class, **limits)
    assert caught.value.status == status
    assert all(caught.value.content["error"][part] is not None for part in ("rule", "value", "fix"))


def part(disposition: str, data: bytes = b"x") -> bytes:
    return f"--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + data + b"\r\n--b--\r\n"


def test_a_form_holds_its_files_in_order() -> None:
    files = [
        ("heron", "a.png", b"\r\n--form\r\n\r\n\0"),
        ("grey stork", "b c.png", b""),
        ("heron", "ü 🦩.png", b"z" * 999),
    ]
    assert read(FORM, form(files)) == [Upload(*file) for file in files]


@pytest.mark.parametrize(
    ("disposition", "field", "file"),
    [
        ('name="a; b=c"; filename="x;y.png"', "a; b=c", "x;y.png"),
        ('name="say %22hi%22"; filename="%22.png"', 'say "hi"', '".png'),  # browsers, curl 7.81 and later
        (r'name="say \"hi\""; filename="\\x.png"', 'say "hi"', r"\x.png"),  # curl before
        (r'name="a"; filename="C:\photos\a.png"', "a", r"C:\photos\a.png"),
        ("name=plain; filename=a.png", "plain", "a.png"),
        ("NAME=\"a\"; filename*=UTF-8''%C3%BC.png", "a", "ü.png"),
        ('filename=""; name="a"', "a", "image 0"),
        ('name="unended; filename="a.png', "unended; filename=", None),
    ],
)
def test_names_as_clients_write_them(disposition: str, field: str, file: str | None) -> None:
    body = part(disposition)
    if file is None:
        refused(422, "each part of a form must be a file", "multipart/form-data; boundary=b", body)
    else:
        assert read("multipart/form-data; boundary=b", body) == [Upload(field, file, b"x")]


def test_json_and_a_plain_image() -> None:
    text = base64.b64encode(b"bytes").decode()
    body = json.dumps({"classes": {"a": [text], "b": [f"data:image/png;base64,{text}"]}}).encode()
    kind = "Application/JSON; charset=utf-8"
    assert read(kind, body) == [Upload("a", "image 0", b"bytes"), Upload("b", "image 0", b"bytes")]
    body = json.dumps({"images": [text, text]}).encode()
    assert [upload.file for upload in read(kind, body, by_class=False)] == ["image 0", "image 1"]
    assert read("image/jpeg", b"x", by_class=False) == [Upload("image", "image 0", b"x")]
    refused(415, "multipart/form-data .* or application/json", "image/jpeg", b"x")


def test_what_is_refused() -> None:
    refused(415, "a body with images must be", "", b"")
    refused(415, "a body with images must be", "text/plain", b"hello")
    refused(422, "needs a boundary", "multipart/form-data", b"")
    refused(422, "must end with its boundary", FORM, form([("a", "a", b"x")])[:-20])
    refused(422, "at least one image", FORM, form([]))
    refused(422, "each part of a form must be a file", "multipart/form-data; boundary=b", part('name="a"'))
    refused(422, "needs a name", "multipart/form-data; boundary=b", part('filename="a"'))
    refused(422, "class name must have", FORM, form([("", "a", b"x")]))
    refused(422, "class name must have", FORM, form([("a\0", "a", b"x")]))
    refused(422, "class name must have", FORM, form([("a" * 101, "a", b"x")]))
    refused(413, "may hold 3 images", FORM, form([("a", "a", b"x")] * 4), images=3)
    refused(422, "at most 2 classes", FORM, form([(name, "a", b"x") for name in "abc"]), classes=2)
    for body in (b"", b"[]", b'{"classes": [1]}', b'{"classes": {"a": "x"}}', b"[" * 100_000, b"\xff", b'{"a": NaN}'):
        refused(422, "a body in JSON must", "application/json", body)
    for value in ("@", "a", 7, None, ["eA=="]):
        refused(422, "base64", "application/json", json.dumps({"classes": {"a": [value]}}).encode())
    many = json.dumps({"images": ["eA=="] * 9}).encode()
    refused(413, "may hold 8 images", "application/json", many, by_class=False, images=8)


@given(
    content_type=st.sampled_from([FORM, "multipart/form-data; boundary=b", "application/json", "image/png"])
    | st.text(max_size=40),
    body=st.binary(max_size=200)
    | st.lists(
        st.sampled_from(
            [b"--b", b"--b--", b"\r\n", b"\r\n\r\n", b'; name="a"', b'filename="', b"\\", b'"', b"=", b"%22"]
        ),
        max_size=20,
    ).map(b"".join),
    by_class=st.booleans(),
)
def test_any_bytes_are_read_or_refused(content_type: str, body: bytes, by_class: bool) -> None:
    try:
        found = read(content_type, body, by_class=by_class)
    except RefusedError as error:
        json.dumps(error.content)
    else:
        assert found

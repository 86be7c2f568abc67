"""The images in a request's body: a form as browsers and `curl -F` send it, JSON with base64, or one plain image."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from email.message import Message
from typing import Any
from urllib.parse import unquote_to_bytes

from tasknorm.errors import short
from tasknorm.machine import parsed_json
from tasknorm.serve.limits import Limits
from tasknorm.serve.refusals import RefusedError

LONGEST_NAME = 100  # characters
LARGEST_HEAD = 8192  # bytes of the headers of a form's part
KINDS = "multipart/form-data (curl -F), application/json, or image/* for one image"


@dataclass(frozen=True)
class Upload:
    """An image as it came.

    Args:
        field: the form's field, which is the class of a context image.
        file: the file's name, or the image's place in the request; for answers and errors.
        data: bytes of an image file.
    """

    field: str
    file: str
    data: bytes


def read_uploads(content_type: str, body: bytes, limits: Limits, *, by_class: bool) -> list[Upload]:
    """The images of a body, at least one.

    Args:
        content_type: the request's header.
        body: the request's body.
        limits: of the service.
        by_class: whether the images are a context's, each of a class.

    Raises:
        RefusedError: if the body is something else, is damaged, or holds too many images.
    """
    header = _header(content_type)
    kind = header.get_content_type() if content_type else "nothing"
    if kind == "multipart/form-data":
        found = _form(header, body, limits)
    elif kind == "application/json":
        found = _json(body, limits, by_class=by_class)
    elif not by_class and (kind.startswith("image/") or kind == "application/octet-stream"):
        found = [Upload("image", "image 0", body)]
    else:
        wanted = KINDS if not by_class else KINDS.partition(", or")[0].replace(", ", " or ")
        raise RefusedError(
            415, f"a body with images must be {wanted}", short(content_type), "set the header Content-Type"
        )
    if not found:
        raise RefusedError(422, "a request needs at least one image", 0, _example(by_class))
    if by_class:
        _check_names([upload.field for upload in found], limits)
    return found


def _check_names(names: list[str], limits: Limits) -> None:
    for name in names:
        if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
            raise RefusedError(
                422,
                f"a class name must have 1 to {LONGEST_NAME} printable characters",
                short(name),
                "rename the form's field or JSON key",
            )
    if len(set(names)) > limits.classes:
        raise RefusedError(422, f"at most {limits.classes} classes are allowed", len(set(names)), "send fewer classes")


def _check_count(count: int, limits: Limits) -> None:
    if count > limits.images:
        raise RefusedError(413, f"a request may hold {limits.images} images", count, "send several requests")


def _example(by_class: bool) -> str:
    return "curl -F heron=@a.jpg -F stork=@b.jpg ..." if by_class else "curl -F image=@photo.jpg ..."


def _header(content_type: str) -> Message:
    header = Message()
    header["Content-Type"] = " ".join(content_type.split())
    return header


def _form(header: Message, body: bytes, limits: Limits) -> list[Upload]:
    """The parts of a multipart body (RFC 7578); all of them must be files."""
    boundary = header.get_param("boundary")
    if not isinstance(boundary, str) or not 1 <= len(boundary) <= 70:
        raise RefusedError(
            422, "a form needs a boundary of 1 to 70 characters", short(boundary), "let your client set it"
        )
    between = b"\r\n--" + boundary.encode(errors="surrogateescape")
    body = b"\r\n" + body
    _check_count(body.count(between) - 1, limits)
    _, *parts = body.split(between)
    if not parts or not parts[-1].startswith(b"--"):
        raise RefusedError(422, "a form must end with its boundary", f"{len(body) - 2:,} bytes", "send the whole body")
    return [_part(part, number) for number, part in enumerate(parts[:-1])]


def _part(part: bytes, number: int) -> Upload:
    head, found, data = part.partition(b"\r\n\r\n")
    options = _disposition(head) if found and len(head) <= LARGEST_HEAD else {}
    if "name" not in options:
        raise RefusedError(422, "each part of a form needs a name", f"part {number}", _example(by_class=False))
    file = options.get("filename")
    if file is None:
        raise RefusedError(
            422,
            "each part of a form must be a file",
            f"field {short(options['name'])} without a file name",
            "write @ before the path: curl -F heron=@a.jpg",
        )
    return Upload(options["name"], file or f"image {number}", data)


def _disposition(head: bytes) -> dict[str, str]:
    """The parameters of a part's Content-Disposition.

    Written by browsers and curl: UTF-8 in quotes, in which only quotes and line ends are escaped (%22, %0D, %0A);
    older versions of curl write \\" and \\\\.
    """
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            return _parameters(value.decode(errors="replace"))
    return {}


def _parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    _, _, rest = text.partition(";")
    while rest:
        key, equals, rest = rest.partition("=")
        if not equals:
            break
        value, rest = _quoted(rest.lstrip()[1:]) if rest.lstrip().startswith('"') else _until(rest, ";")
        key = key.strip().lower()
        if key == "filename*":  # RFC 5987: charset'language'percent-encoded
            found.setdefault("filename", unquote_to_bytes(value.split("'")[-1]).decode(errors="replace"))
        else:
            found[key] = value
    return found


def _quoted(text: str) -> tuple[str, str]:
    """The text up to its closing quote, without escapes, and what follows the next semicolon."""
    letters: list[str] = []
    at = 0
    while at < len(text) and text[at] != '"':
        at += text[at] == "\\" and text[at + 1 : at + 2] in ('"', "\\")
        letters.append(text[at : at + 1])
        at += 1
    value = "".join(letters)
    for escape, letter in (("%22", '"'), ("%0D", "\r"), ("%0A", "\n")):
        value = value.replace(escape, letter)
    return value, text[at + 1 :].partition(";")[2]


def _until(text: str, end: str) -> tuple[str, str]:
    value, _, rest = text.partition(end)
    return value.strip(), rest


def _json(body: bytes, limits: Limits, *, by_class: bool) -> list[Upload]:
    """`{"classes": {"heron": [base64, ...]}}` for a context, `{"images": [base64, ...]}` for targets."""
    shape = '{"classes": {"heron": ["<base64>", ...]}}' if by_class else '{"images": ["<base64>", ...]}'
    try:
        value = parsed_json(body)
    except ValueError as error:
        raise RefusedError(422, "a body in JSON must be valid", error, f"send {shape}") from None
    found = value.get("classes" if by_class else "images") if isinstance(value, dict) else None
    groups: Any = found if by_class else {"image": found}
    if not isinstance(groups, dict) or not all(isinstance(texts, list) for texts in groups.values()):
        raise RefusedError(422, f"a body in JSON must look like {shape}", short(value), "see /docs")
    _check_count(sum(map(len, groups.values())), limits)
    texts = [(field, number, text) for field, texts in groups.items() for number, text in enumerate(texts)]
    return [Upload(field, f"image {number}", _bytes(text, field, number)) for field, number, text in texts]


def _bytes(text: object, field: str, number: int) -> bytes:
    try:
        if isinstance(text, str):
            return base64.b64decode(text.rpartition("base64,")[2], validate=True)  # a data URL will do
    except (binascii.Error, ValueError):
        pass
    raise RefusedError(
        422,
        "images in JSON must be base64 text",
        f"{field} {number}: {short(text)}",
        "encode the file: base64 -w0 FILE",
    )

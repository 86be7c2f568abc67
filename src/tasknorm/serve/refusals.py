"""Errors of the service: JSON with the rule, the value received and the fix, whatever the status."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from tasknorm.errors import one_line


class RefusedError(Exception):
    """A request that is not answered as asked.

    Args:
        status: the HTTP status.
        rule: what holds for such requests.
        value: what was received.
        fix: what the caller can do.
        headers: further headers of the answer.
    """

    def __init__(
        self, status: int, rule: str, value: object, fix: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{rule}, got {value}; {fix}")
        self.status = status
        self.headers = dict(headers or {})
        value = value if isinstance(value, bool | int | float) or value is None else one_line(str(value))
        self.content = {"error": {"rule": rule, "value": value, "fix": fix}}

    def response(self) -> JSONResponse:
        """The answer to the caller."""
        return JSONResponse(self.content, self.status, self.headers)

    def raw(self) -> bytes:
        """The answer as bytes of HTTP, for a connection that is closed after it."""
        body = json.dumps(self.content).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}"]
        lines += [f"{name}: {value}" for name, value in {**headers, **self.headers}.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


def busy(rule: str, value: object, seconds: int) -> RefusedError:
    """The refusal of a service that has too much to do."""
    fix = f"try again in {seconds} s (the header Retry-After)"
    return RefusedError(503, rule, value, fix, {"Retry-After": str(seconds)})


def broken(error: Exception) -> RefusedError:
    """The refusal after an error of the service itself."""
    return RefusedError(500, "every request should be answered", type(error).__name__, "see the service's log")


def told(error: Exception, status: int, value: object) -> RefusedError:
    """The refusal for one of the package's own errors, whose messages read "rule, got value; fix"."""
    rule, _, fix = one_line(str(error)).partition("; ")
    return RefusedError(status, rule, value, fix or "correct the request")


def of_status(error: HTTPException, method: str, path: str, methods: Collection[str]) -> RefusedError:
    """The refusal for a status that the web framework chose, such as 404 and 405; `methods` are those of the path."""
    allowed = ", ".join(sorted(methods))
    texts: dict[int, tuple[str, str, str]] = {
        404: ("there is nothing at this path", path, "see /docs for the paths"),
        405: (f"this path answers {allowed} only", method, "see /docs for the methods"),
    }
    other = (one_line(str(error.detail)), f"{method} {path}", "see /docs for what can be asked")
    headers = {"Allow": allowed} if error.status_code == 405 else error.headers
    return RefusedError(error.status_code, *texts.get(error.status_code, other), headers)

"""The service's door, which every request passes: who asks, how large the body is, how long it takes.

It comes before the web framework, so that a refusal under load costs next to nothing, and turns whatever goes wrong
behind it into an error in JSON.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tasknorm.serve.admission import Admission
from tasknorm.serve.limits import Limits
from tasknorm.serve.metrics import Metrics
from tasknorm.serve.refusals import RefusedError, broken, busy

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
GONE = 499  # for the metrics: the client did not wait for the answer
NEVER_GUESSED = (b"x-content-type-options", b"nosniff")  # answers hold names that callers chose

log = logging.getLogger("uvicorn.error")


class Door:
    """An ASGI app around the service's.

    Args:
        app: the app behind it.
        limits: of the service.
        admission: places for requests, and room for bodies.
        metrics: counts requests.
        token: what callers must send as a bearer token; None if anybody may ask.
        hosts: the names under which the service may be asked, so that no web page can reach it by a name of its own
            that points here; None for any.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        admission: Admission,
        metrics: Metrics,
        token: str | None,
        hosts: Collection[str] | None,
    ) -> None:
        self.app, self.limits, self.admission, self.metrics = app, limits, admission, metrics
        self.hosts = hosts
        self._bearer = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the framework's start and end
            await self.app(scope, receive, send)
            return
        began, received, status = time.monotonic(), 0, 0

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            self._check_size(received + size)
            self.admission.receive(size)
            received += size
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], NEVER_GUESSED]
            await send(message)

        try:
            if scope["method"] == "POST" and self.admission.full:  # first of all: it must cost next to nothing
                await self.admission.turned_away().response()(scope, receive, sending)
                return
            async with asyncio.timeout(self.limits.seconds):
                self._check(scope)
                await self.app(scope, receiving, sending)
        except Exception as error:
            refusal = self._refusal(error)
            if not status:
                await refusal.response()(scope, receive, sending)
        finally:
            self.admission.release(received)
            route = getattr(scope.get("route"), "path", "other")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self.metrics.request(method, route, status or GONE, time.monotonic() - began)

    def _refusal(self, error: Exception) -> RefusedError:
        if isinstance(error, RefusedError):
            return error
        if isinstance(error, TimeoutError):
            rule = f"a request may take {self.limits.seconds:g} s, its body included"
            return busy(rule, "one that took longer", self.admission.retry_after)
        log.error("a request failed", exc_info=error)
        return broken(error)

    def _check(self, scope: Scope) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        self._check_host(headers.get(b"host", ""), headers.get(b"origin"))
        if scope["path"] != "/health":
            self._check_token(headers.get(b"authorization", ""))
        length = headers.get(b"content-length", "0")
        self._check_size(int(length) if length.isdecimal() else 0)

    def _check_host(self, host: str, origin: str | None) -> None:
        if self.hosts is not None and _name(host) not in self.hosts:
            allowed = ", ".join(sorted(self.hosts))
            raise RefusedError(403, f"this service answers to the names {allowed}", host, "ask it by one of them")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            raise RefusedError(403, "pages of other sites may not ask this service", origin, "ask it from a program")

    def _check_token(self, authorization: str) -> None:
        if self._bearer is None or hmac.compare_digest(authorization.encode("latin-1"), self._bearer):
            return
        raise RefusedError(
            401,
            "this service needs its token",
            "another token" if authorization else "no token",
            "send the header 'Authorization: Bearer TOKEN'",
            {"WWW-Authenticate": "Bearer"},
        )

    def _check_size(self, size: int) -> None:
        if size > self.limits.body_bytes:
            rule = f"a body may have {self.limits.body_bytes:,} bytes"
            raise RefusedError(413, rule, size, "send smaller or fewer images, in several requests")


def _name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> _name("LocalHost:8000"), _name("[::1]:8000")
    ('localhost', '::1')
    """
    host = host.strip().lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]

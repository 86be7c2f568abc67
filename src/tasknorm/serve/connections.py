"""One connection: uvicorn's own protocol with deadlines, a bound on their number, and errors in JSON.

uvicorn waits for ever for the headers of a first request, and for a client to read its answer. Here every state of a
connection has a deadline, at which it is cut.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from tasknorm.serve.limits import Limits
from tasknorm.serve.refusals import RefusedError, busy


class Connection(H11Protocol):
    """A connection that waits for nobody for ever.

    Between requests and while headers arrive, it is cut after `idle_seconds`, as is one whose client goes on sending
    a body after it was answered. A request ends after `seconds` by the app's own deadline; if even the answer cannot be
    sent, because the client does not read, the connection is cut `idle_seconds` later.
    """

    limits = Limits()  # a subclass has the service's own

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._watched: object = self  # no state is this

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # An answer is two small writes, and the second would wait 40 ms for the first to be acknowledged.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()
        if len(self.connections) > self.limits.connections:
            rule = f"at most {self.limits.connections} connections are open at a time"
            transport.write(busy(rule, len(self.connections), 1).raw())
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer something that is not HTTP, and close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(RefusedError(400, "a request must be HTTP/1.1", msg, "use an HTTP client").raw())
        self.transport.close()

    def _watch(self) -> None:
        """Begin another deadline if the connection's state is another one."""
        waits = self.cycle is None or self.cycle.response_complete
        state = self.cycle, waits
        if state == self._watched:
            return
        self._watched = state
        if self._deadline is not None:
            self._deadline.cancel()
        seconds = self.limits.idle_seconds + (0 if waits else self.limits.seconds)
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

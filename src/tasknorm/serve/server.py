"""The process: a socket, uvicorn, and a clean end."""

from __future__ import annotations

import ipaddress
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import uvicorn

from tasknorm.errors import SettingsError
from tasknorm.files import alone
from tasknorm.runs import Adapter
from tasknorm.serve.app import app_of
from tasknorm.serve.connections import Connection
from tasknorm.serve.limits import Limits
from tasknorm.serve.service import Service
from tasknorm.serve.store import Store

LOCAL = ("localhost", "127.0.0.1", "::1")


def serve(
    run: Path,
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
    started: Callable[[str], None] = print,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that have begun are answered first.

    Args:
        run: folder of a run, whose learner makes the predictors.
        folder: holds the predictors; nobody else may write to it meanwhile.
        host, port: where to listen; port 0 takes a free one.
        token: what callers must send as a bearer token; None if anybody may ask.
        limits: of the service.
        threads: cores that torch uses; all if None.
        started: is told the address when the service listens.

    Raises:
        SettingsError: if the address cannot be used, or another process has the folder.
        DataError: if the run cannot be used.
    """
    warnings.filterwarnings("ignore", module=r"PIL\.")  # strangers' images must not fill the log
    limits = limits or Limits()
    adapter = Adapter(run)
    with alone(folder), _listening(host, port) as listener:
        service = Service(adapter.preparation, adapter, Store(folder, limits, adapter.network), limits, threads)
        app = app_of(service, token=token, hosts={*LOCAL, host.lower()} if is_local(host) else None)
        config = uvicorn.Config(
            app,
            http=type("ServiceConnection", (Connection,), {"limits": limits}),
            ws="none",
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_keep_alive=max(1, int(limits.idle_seconds)),
            timeout_graceful_shutdown=max(1, int(limits.seconds)),
            h11_max_incomplete_event_size=1 << 15,
        )
        started(_url(host, listener.getsockname()[1]))
        uvicorn.Server(config).run([listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"the service cannot listen at {host} port {port} ({error}); choose another --port or --host"
        ) from None


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

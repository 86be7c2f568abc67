"""`tasknorm serve`: few-shot classifiers behind HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.cli.flags import given, with_settings
from tasknorm.errors import SettingsError
from tasknorm.machine import keep_freed_memory, read_regular
from tasknorm.serve import Limits, is_local, limits_of, serve

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

LONGEST_TOKEN = 4096  # bytes
TOKEN = "TASKNORM_TOKEN"


@app.command(name="serve", epilog="Example: tasknorm serve runs/first --folder predictors --port 8000")
@with_settings(Limits.model_fields, Limits().model_dump())
def serve_run(
    run: Annotated[Path, typer.Argument(help="Folder of a run, whose learner makes the predictors.")],
    folder: Annotated[Path, typer.Option(help="Folder that keeps the predictors; made if need be.")] = Path(
        "predictors"
    ),
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all of this machine's.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the token that callers must send. Default: the variable {TOKEN}, or no token."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads for the nets. Default: all cores.")] = None,
    **limits: Any,
) -> None:
    """Serve few-shot classifiers over HTTP: send a few images of each class, then ask for the classes of others."""
    keep_freed_memory()
    with errors():
        token = _token(token_file)

        def started(url: str) -> None:
            print(f"tasknorm serves {run} at {url} (what can be asked: {url}/docs)", flush=True)
            if token is None and not is_local(host):
                print(f"tasknorm: anybody who reaches {host} may ask; set a token with --token-file", file=sys.stderr)

        allowed = limits_of(given(limits))
        serve(run, folder, host=host, port=port, token=token, limits=allowed, threads=threads, started=started)


def _token(file: Path | None) -> str | None:
    """The token in the file, or in the environment; None if there is neither."""
    if file is None:
        where, token = f"the variable {TOKEN}", os.environ.get(TOKEN) or None
    else:
        where = str(file)
        try:
            token = read_regular(file, LONGEST_TOKEN).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file}: the token cannot be read ({error}); correct --token-file") from None
    if token is not None and (len(token) < 8 or not token.isascii() or not token.isprintable() or " " in token):
        raise SettingsError(
            f"{where}: a token must have 8 or more printable ASCII characters without spaces, got {len(token)} "
            "characters; make one: openssl rand -hex 16"
        )
    return token

"""`tasknorm play`: the page that learns what you draw."""

from __future__ import annotations

import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tasknorm.cli.exit_codes import errors
from tasknorm.play import Server, embedded, fetch_runtime, of_run, runtime_files, write_static

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog="Example: tasknorm play --run runs/first")
def play(
    run: Annotated[
        Path | None, typer.Option(help="Folder of a finished run to play with, instead of the learners that ship.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of 127.0.0.1; 0 for any that is free.")] = 0,
    static: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the page to this new folder, for any web host, and exit.")
    ] = None,
    fetch: Annotated[
        bool,
        typer.Option("--fetch-runtime", help="Fetch onnxruntime-web by npm first; the browser then computes."),
    ] = False,
    opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Draw made-up characters in the browser, and watch learners with three norms learn them."""
    with errors():
        if fetch:
            print(f"onnxruntime-web is in {fetch_runtime()}")
        in_browser = static is not None or (runtime_files() is not None and find_spec("onnxscript") is not None)
        playable = embedded() if run is None else of_run(run, for_browser=in_browser)
        if static is not None:
            whole = write_static(playable, static)
            print(f"Written: {static}")
            if not whole:
                print("It lacks onnxruntime-web and cannot compute: write it again with --fetch-runtime.")
            return
        server = Server(playable, port)
    where = "in the browser" if server.in_browser else "here, by Python (tasknorm play --fetch-runtime: in the browser)"
    print(f"The page is at {server.address} and computes {where}. Stop with Ctrl-C.", flush=True)
    if opened:
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    finally:
        server.server_close()

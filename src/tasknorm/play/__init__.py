"""The page that learns what you draw: served on this machine, or written as a folder for any web host."""

from tasknorm.play.drawing import prepared_drawing
from tasknorm.play.models import Model, Playable, embedded, embedded_learner, of_run
from tasknorm.play.runtime import fetch_runtime, runtime_files
from tasknorm.play.server import Server
from tasknorm.play.static import files_of, write_static

__all__ = [
    "Model",
    "Playable",
    "Server",
    "embedded",
    "embedded_learner",
    "fetch_runtime",
    "files_of",
    "of_run",
    "prepared_drawing",
    "runtime_files",
    "write_static",
]

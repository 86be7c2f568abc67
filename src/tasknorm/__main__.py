"""`python -m tasknorm`, and so `torchrun -m tasknorm`."""

from tasknorm.cli import app

app(prog_name="tasknorm")

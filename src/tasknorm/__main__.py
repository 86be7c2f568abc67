"""`python -m tasknorm`, and so `torchrun -m tasknorm`."""

from tasknorm.cli import app

if __name__ == "__main__":
    app(prog_name="tasknorm")

"""`python -m ctrlruntime.generate`."""

from .cli import generate

generate(prog_name="python -m ctrlruntime.generate")

"""`python -m ctrlruntime.cli`."""

from .program import main

main()

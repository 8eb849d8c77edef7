"""`python -m manager`."""

from manager.cli import main

main(prog_name="manager")

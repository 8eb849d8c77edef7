"""`python -m tests.catalogue`: what the tests say about each line of the requirement catalogue.

python -m tests.catalogue            run the tests of the catalogue, print the table
python -m tests.catalogue WQ PQ-01   the same for families or lines
python -m tests.catalogue --scenarios  run the scenarios of all systems instead
python -m tests.catalogue --hazards  run the tests of hazards instead
python -m tests.catalogue --write    write the documents of all catalogues
python -m tests.catalogue --check    fail if they are out of date
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from tests.catalogue import document
from tests.catalogue.requirements import Book

ROOT = Path(__file__).parents[2]


@click.command(help=__doc__)
@click.argument("lines", nargs=-1)
@click.option("--scenarios", is_flag=True, help="The scenarios of all systems.")
@click.option("--hazards", is_flag=True, help="What a bad day may not do.")
@click.option("--write", is_flag=True, help="Write the documents.")
@click.option("--check", is_flag=True, help="Fail if a document is out of date.")
@click.option("-n", "--workers", default=2, show_default=True, help="Processes to run tests in.")
def main(
    lines: tuple[str, ...], scenarios: bool, hazards: bool, write: bool, check: bool, workers: int
) -> None:
    if write:
        for book in Book:
            document.path(book).write_text(document.text(book))
    elif check:
        if difference := document.drift():
            click.echo(difference)
            sys.exit("the documents are out of date: python -m tests.catalogue --write")
    else:
        parallel = ["-n", str(workers), "--dist", "loadgroup"] if workers else []
        books = {Book.SCENARIOS: scenarios, Book.HAZARDS: hazards}
        book = next((book for book, wanted in books.items() if wanted), Book.REQUIREMENTS)
        chosen = [f"--requirement={line}" for line in lines] or [f"--{book}"]
        command = [sys.executable, "-m", "pytest", *parallel, *chosen]
        sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


main()

"""`python -m tests.cloud.runs.program NAME`: the program of :mod:`tests.cloud.runs.work`."""

import sys

from ctrlruntime.imports import lasting

with lasting():
    from tests.cloud.runs.work import main

main(sys.argv[1])

"""`python -m tests.cloud.runs.program NAME`: the program of :mod:`tests.cloud.runs.work`."""

import sys

from ctrlruntime.fast_imports import fast_imports

with fast_imports():
    from tests.cloud.runs.work import main

main(sys.argv[1])

"""`python -m ctrlruntime_manager`."""

from ctrlruntime_manager import main

main()

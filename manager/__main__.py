"""`python -m manager`."""

from manager.program import main

main()

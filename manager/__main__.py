"""`python -m manager`."""

import sys

from ctrlruntime.imports import lasting

if sys.argv[1:2] == ["task"]:
    # A run of a task: without the controllers, whose imports take a second.
    from manager.task import task

    task(args=sys.argv[2:], prog_name="manager task")
elif sys.argv[1:2] == ["node"]:
    # Beside every node: it costs half of the memory so.
    from manager.node import node

    node(args=sys.argv[2:], prog_name="manager node")
else:
    with lasting():
        from manager.cli import main

    main(prog_name="manager")

"""`python -m ctrlruntime.envtest.nodes`: simulated nodes as a process of their own."""

from ctrlruntime.imports import lasting

with lasting():
    from ctrlruntime.envtest.nodes.command import main

if __name__ == "__main__":
    main()

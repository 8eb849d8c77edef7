"""`python -m ctrlruntime.envtest.nodes`: simulated nodes as a process of their own."""

from ctrlruntime.fast_imports import fast_imports

with fast_imports():
    from ctrlruntime.envtest.nodes.command import main

if __name__ == "__main__":
    main()

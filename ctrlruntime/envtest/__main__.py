"""`python -m ctrlruntime.envtest`: the embedded API server as a process of its own."""

from ctrlruntime.fast_imports import fast_imports

with fast_imports():
    from ctrlruntime.envtest.command import main

if __name__ == "__main__":
    main()

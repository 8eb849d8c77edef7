"""`python -m ctrlruntime.envtest`: the embedded API server as a process of its own."""

from ctrlruntime.imports import lasting

with lasting():
    from ctrlruntime.envtest.command import main

if __name__ == "__main__":
    main()

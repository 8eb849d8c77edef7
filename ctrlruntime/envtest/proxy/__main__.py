"""`python -m ctrlruntime.envtest.proxy`: a proxy as its own process."""

from ctrlruntime.imports import lasting

with lasting():
    from ctrlruntime.envtest.proxy.command import main

if __name__ == "__main__":
    main()

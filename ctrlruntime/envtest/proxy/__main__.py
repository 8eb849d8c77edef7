"""`python -m ctrlruntime.envtest.proxy`: a proxy as its own process."""

from ctrlruntime.fast_imports import fast_imports

with fast_imports():
    from ctrlruntime.envtest.proxy.command import main

if __name__ == "__main__":
    main()

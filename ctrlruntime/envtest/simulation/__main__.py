"""``python -m ctrlruntime.envtest.simulation``."""

from ctrlruntime.envtest.simulation.command import command

if __name__ == "__main__":
    command()

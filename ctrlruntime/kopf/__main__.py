"""`python -m ctrlruntime.kopf run FILE`."""

from ctrlruntime.kopf.command import kopf

kopf(prog_name="ctrlruntime kopf")

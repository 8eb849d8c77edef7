"""The providers of runs, one module with a PLUGIN each."""

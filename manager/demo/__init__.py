"""`make run`: the whole system on one machine."""

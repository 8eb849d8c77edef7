"""The driver: one ``ensure`` for every type of task."""

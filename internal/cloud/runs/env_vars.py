"""What a run finds around it: the variables that name its files. Every provider sets the same."""

from typing import Final

__all__ = ["FOLDER", "INPUT", "LIMIT", "PLAIN", "RESULT", "SEAL_KEY", "SECRETS"]

INPUT: Final = "TASK_INPUT"
"""File with the input, JSON."""
SECRETS: Final = "TASK_SECRETS"
"""Folder with a file `<secret>/<key>` for each key that the task may read."""
RESULT: Final = "TASK_RESULT"
"""File that gets the report, JSON; also while the task is under way."""
LIMIT: Final = "TASK_RESULT_LIMIT"
"""Bytes that the report may have; 4096 without it."""
SEAL_KEY: Final = "TASK_SEAL_KEY"
"""File with the key that secret outputs are sealed with."""
PLAIN: Final = "TASK_PLAIN_VARIABLES"
"""Names of variables that hold no secret, separated by commas; set where others do."""
FOLDER: Final = "TASK_FOLDER"
"""Folder in which the task may write; the system's temporary folder without it."""

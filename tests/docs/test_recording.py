"""The recording of the quick start has the README's commands, and is small."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from tests.docs.recording import COLUMNS, FOLDER, NAME, commands, quick_start

CAST = (FOLDER / f"{NAME}.cast").read_text()
PICTURE = (FOLDER / f"{NAME}.svg").read_text()
MADE_BY = "run `python -m tests.docs.recording` again"


def test_the_recording_has_every_command_of_the_quick_start() -> None:
    typed = [json.loads(line)[2] for line in CAST.splitlines()[1:]]
    for block in quick_start()[1]:
        for command in commands(block):
            shown = "$ " + command.replace("\n", "\r\n") + "\r\n"
            assert shown in typed, f"{command!r} is not in the recording: {MADE_BY}"


def test_times_of_the_recording_only_go_forward() -> None:
    moments = [json.loads(line)[0] for line in CAST.splitlines()[1:]]
    assert moments == sorted(moments)


def test_the_picture_shows_what_was_recorded() -> None:
    shown = [each.text or "" for each in ET.fromstring(PICTURE).iter() if each.tag.endswith("text")]
    said = "".join(json.loads(line)[2] for line in CAST.splitlines()[1:])
    assert shown == [line[:COLUMNS] for line in said.replace("\r\n", "\n").splitlines()]


def test_both_files_are_small() -> None:
    assert len(CAST) < 40_000
    assert len(PICTURE) < 60_000

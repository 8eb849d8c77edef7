"""Writes the golden files: python -m tests.cosmos.builders --write"""

import sys

from .golden import FOLDER, files


def main(arguments: list[str]) -> int:
    """Write them, or say which differ."""
    wanted = files()
    if arguments == ["--write"]:
        FOLDER.mkdir(exist_ok=True)
        for path in FOLDER.iterdir():
            path.unlink()
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    differing = [path for path, text in wanted.items() if path.read_text() != text]
    sys.stdout.writelines(f"{path} differs\n" for path in differing)
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

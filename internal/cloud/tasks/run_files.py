"""The files of a run, as the process of its task finds them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from apis.references import SecretKeyRef
from internal.cloud.runs import RunInput, wire
from internal.cloud.runs.report import LIMIT, Report, encode_report
from internal.cloud.runs.wire import BadInput, decode_input
from internal.cloud.tasks.task import TaskRejected

__all__ = ["Workplace"]

_SHORTEST_LIMIT = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """See :mod:`internal.cloud.runs.wire`."""

    input: Path
    result: Path
    secrets: Path | None = None
    seal_key: Path | None = None
    folder: Path | None = None
    limit: int = LIMIT

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Workplace":
        """Raise BadInput for what is missing."""

        def path(name: str) -> Path | None:
            return Path(environment[name]) if environment.get(name) else None

        given, result = path(wire.INPUT), path(wire.RESULT)
        if given is None or result is None:
            raise BadInput(
                f"a task is run by the manager, which names its input in ${wire.INPUT} and "
                f"the file for its result in ${wire.RESULT}; to try one by hand, set both"
            )
        return cls(
            input=given,
            result=result,
            secrets=path(wire.SECRETS),
            seal_key=path(wire.SEAL_KEY),
            folder=path(wire.FOLDER),
            limit=_limit(environment.get(wire.LIMIT, "")),
        )

    def read_input(self, task: str) -> RunInput:
        """Return the input, which has to be for that task. Raises BadInput."""
        try:
            given = decode_input(self.input.read_bytes())
        except OSError as error:
            raise BadInput(f"the input of the run cannot be read: {error}") from error
        if given.task != task:
            raise BadInput(f"the input is for the task {given.task!r}, and not for {task!r}")
        return given

    def read_secret(self, ref: SecretKeyRef) -> str:
        """Raise TaskRejected where there is none, or no text."""
        if "/" in ref.name + ref.key or ".." in (ref.name, ref.key):
            raise TaskRejected(f"Secret {ref.name!r}, key {ref.key!r}: there are no such names")
        if self.secrets is None:
            raise TaskRejected(_not_given(ref))
        try:
            return (self.secrets / ref.name / ref.key).read_bytes().decode()
        except UnicodeDecodeError:
            raise TaskRejected(f"key {ref.key!r} of Secret {ref.name!r} is not UTF-8") from None
        except OSError:
            raise TaskRejected(_not_given(ref)) from None

    def read_secret_keys(self, name: str) -> dict[str, str]:
        """Return the values of a Secret by key. Raises TaskRejected where there are none, or no text."""
        folder = None if self.secrets is None or "/" in name else self.secrets / name
        if folder is None or name in ("", ".", "..") or not folder.is_dir():
            raise TaskRejected(
                f"the task was not given the Secret {name!r}: make it in the object's namespace, with"
                " at least one key, and ask for a retry"
            )
        keys = sorted(path.name for path in folder.iterdir() if not path.name.startswith(".."))
        return {key: self.read_secret(SecretKeyRef(name=name, key=key)) for key in keys}

    def read_seal_key(self) -> str:
        """Raise LookupError if the run has none."""
        if self.seal_key is None:
            raise LookupError(f"there is no key for secret outputs (${wire.SEAL_KEY})")
        return self.seal_key.read_text().strip()

    def write(self, report: Report) -> None:
        """In place: a container's file is a mount of its own, and cannot be replaced.

        Raises ReportTooLong.
        """
        self.result.write_bytes(encode_report(report, self.limit))


def _limit(text: str) -> int:
    if not text:
        return LIMIT
    if not text.isdecimal() or int(text) < _SHORTEST_LIMIT:
        raise BadInput(
            f"${wire.LIMIT} is {text!r}; it is a number of bytes, {_SHORTEST_LIMIT} or more"
        )
    return int(text)


def _not_given(ref: SecretKeyRef) -> str:
    return (
        f"the task was not given key {ref.key!r} of Secret {ref.name!r}: make the Secret in the "
        "object's namespace, with this key, and ask for a retry"
    )

"""Settings of tasks that may change while the manager runs: limits, timeouts and retries. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from ctrlruntime import intake
from ctrlruntime.intake import IntakeError
from internal.cloud.tasks.task import Retries, TaskDefinition

T = TypeVar("T")

_Count = Annotated[int, Field(ge=0, le=100_000)]
_Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600)]


class TaskSettings(BaseModel):
    """What replaces a part of a task's definition. What is not given stays as it is."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True
    )

    limit: _Count | None = None
    """Runs at once; 0 is without limit."""
    starts_per_minute: _Count | None = None
    """Starts in any 60 seconds; 0 is without limit."""
    timeout_seconds: _Seconds | None = None
    """Seconds that a run may take."""
    attempts: _Count | None = None
    """Attempts for one set of inputs, the first included; 0 is without limit."""
    retry_delay_seconds: _Seconds | None = None
    """Seconds before the second attempt; doubled for each one after."""
    max_retry_delay_seconds: _Seconds | None = None
    """Most seconds between two attempts."""


class SettingsError(ValueError):
    """Settings that cannot be used. The message names the place and the reason."""


_FILE: TypeAdapter[dict[str, TaskSettings]] = TypeAdapter(dict[str, TaskSettings])


def parse_settings(text: str, tasks: Iterable[str]) -> dict[str, TaskSettings]:
    """Return the settings by task from YAML; an empty text is none. Raises SettingsError.

    Nothing of a file with one wrong value is used.
    """
    found = read_yaml(text, _FILE)
    known = sorted(tasks)
    unknown = sorted(found.keys() - set(known))
    if unknown:
        raise SettingsError(f"{unknown[0]}: no such task; there are {', '.join(known)}")
    return found


def read_yaml(text: str, form: TypeAdapter[dict[str, T]]) -> dict[str, T]:
    """Return what YAML holds; an empty text is an empty mapping. Raises SettingsError, which names the places."""
    try:
        given = intake.read_yaml(text, what="it")
    except IntakeError as error:
        raise SettingsError(str(error)) from error
    try:
        return form.validate_python({} if given is None else given)
    except ValidationError as error:
        raise SettingsError(_describe(error)) from error


def _describe(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in found
    )


def with_settings(definition: TaskDefinition, settings: TaskSettings) -> TaskDefinition:
    """Return the definition with what the settings give."""
    concurrency, retries = definition.concurrency, definition.retries
    return replace(
        definition,
        timeout=_or(settings.timeout_seconds, definition.timeout),
        concurrency=replace(
            concurrency,
            limit=_or(settings.limit, concurrency.limit),
            starts_per_minute=_or(settings.starts_per_minute, concurrency.starts_per_minute),
        ),
        retries=Retries(
            limit=_or(settings.attempts, retries.limit),
            base=_or(settings.retry_delay_seconds, retries.base),
            cap=_or(settings.max_retry_delay_seconds, retries.cap),
        ),
    )


def _or(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


class LiveDefinitions:
    """The definitions of all tasks, as the settings have them at the moment."""

    def __init__(self, given: Iterable[TaskDefinition]) -> None:
        """`given`: what stands where the settings say nothing."""
        self._given = {item.name: item for item in given}
        self._current = dict(self._given)

    def __call__(self, task: str) -> TaskDefinition:
        """Return the definition to use now."""
        return self._current[task]

    @property
    def tasks(self) -> list[str]:
        """Names of all tasks."""
        return sorted(self._given)

    def apply(self, settings: Mapping[str, TaskSettings]) -> list[str]:
        """Put the settings in the place of the earlier ones. Returns the tasks that changed."""
        made = {
            name: with_settings(item, settings.get(name, TaskSettings()))
            for name, item in self._given.items()
        }
        changed = sorted(name for name in made if made[name] != self._current[name])
        self._current = made
        return changed

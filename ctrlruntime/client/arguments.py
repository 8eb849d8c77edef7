"""Errors for arguments of another type than is needed: each shows what to write instead."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path

from ctrlruntime.client.call import Defaults
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import TransportOptions

_CONNECT = "Client.connect(config, {0}.transport, defaults={0}.defaults())"


def check_config(config: object) -> None:
    """Raise TypeError for what is no Config, a coroutine of Config.load() among them."""
    if isinstance(config, Config):
        return
    if inspect.iscoroutine(config):
        config.close()
        raise TypeError("this is a coroutine, and a Config is needed: write await Config.load()")
    if isinstance(config, str) and "://" in config:
        instead = f"Config(host={config!r})"
    elif isinstance(config, str | Path):
        instead = f"await Config.load({str(config)!r})"
    else:
        instead = "await Config.load()"
    raise TypeError(f"a Config is needed, not {_type(config)}: write {instead}")


def check_connect_options(options: object, defaults: object) -> None:
    """Raise TypeError for options of something else than a connection."""
    if options is not None and not isinstance(options, TransportOptions):
        name = type(options).__name__
        instead = {
            "ClientOptions": _CONNECT.format("options"),
            "ManagerOptions": _CONNECT.format("options.client"),
        }.get(name, f"TransportOptions({_keywords(options)})")
        raise TypeError(f"TransportOptions are needed, not {_type(options)}: write {instead}")
    if defaults is not None and not isinstance(defaults, Defaults):
        is_options = type(defaults).__name__ == "ClientOptions"
        instead = "defaults=options.defaults()" if is_options else "defaults=Defaults(...)"
        raise TypeError(f"Defaults are needed, not {_type(defaults)}: write {instead}")


def check_manager_options(options: object, wanted: type[object]) -> None:
    """Raise TypeError for options of a part of the manager, which are one of its options. None are the defaults."""
    if options is None or isinstance(options, wanted):
        return
    parts = {
        "ClientOptions": "client=ClientOptions(...)",
        "TransportOptions": "client=ClientOptions(transport=TransportOptions(...))",
        "ControllerOptions": "controller=ControllerOptions(...)",
        "ElectionOptions": "election=ElectionOptions(...)",
        "EventOptions": "events=EventOptions(...)",
        "GCOptions": "gc=GCOptions(...)",
        "WebhookOptions": "webhook=WebhookOptions(...)",
    }
    instead = parts.get(type(options).__name__, _keywords(options))
    name = wanted.__name__
    if type(options).__name__ == "CacheOptions":
        raise TypeError("CacheOptions are an argument of their own: write cache_options=options")
    raise TypeError(f"{name} are needed, not {_type(options)}: write {name}({instead})")


def _keywords(options: object) -> str:
    if not isinstance(options, Mapping):
        return "..."
    return ", ".join(f"{name}={value!r}" for name, value in options.items())


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__

"""`python -m tests.mutants.preload`: runs pytest again and again, each time in a fork of this process.

Third-party packages are imported once; the repository's own code is imported by every run as it then
is, or with the argument `own` once as well. It prints its process id when that is done. A line of JSON on
standard input starts a run: `arguments`, `environment`, `output`. The answer is the run's process id, and
its exit code when it has ended.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import sys
from typing import NoReturn

from tests.catalogue.requirements import every_line

HEAVY = (
    "aiohttp.web",
    "aiomysql",
    "aiosqlite",
    "annotated_types",
    "cel",
    "click",
    "cryptography.x509",
    "google.protobuf.descriptor_pb2",
    "hypothesis",
    "jinja2",
    "jsonpath",
    "jsonschema_rs",
    "kubernetes_asyncio.config",
    "kubernetes_validate",
    "looptime._internal.plugin",
    "lupa",
    "msgspec",
    "opentelemetry.sdk.trace",
    "orjson",
    "prometheus_client",
    "pydantic.json_schema",
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "structlog",
    "trustme",
    "uvloop",
    "xdist.plugin",
    "yaml",
)
OWN = (
    "ctrlruntime.envtest.environment",
    "ctrlruntime.manager",
    "ctrlruntime.webhook",
    "manager.controllers.cloud",
    "manager.controllers.cosmos",
    "manager.controllers.tenancy",
    "manager.commands.run",
)
SILENT = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""The plugins of pytest are imported before pytest could rewrite their asserts."""


def main() -> int:
    for name in (*HEAVY, *(OWN if sys.argv[1:] == ["own"] else ())):
        importlib.import_module(name)
    every_line()
    gc.freeze()
    print(os.getpid(), flush=True)
    for line in sys.stdin:
        run = json.loads(line)
        child = os.fork()
        if child == 0:
            _pytest(run["arguments"], run["environment"], run["output"])
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return 0


def _pytest(arguments: list[str], environment: dict[str, str], output: str) -> NoReturn:
    """Run pytest and exit at once: the objects that the fork inherited are not finalized."""
    os.setsid()
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, number in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, number)
    os.environ.update(environment)
    import pytest

    code = int(pytest.main([*SILENT, *arguments]))
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())

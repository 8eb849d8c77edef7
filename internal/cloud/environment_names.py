"""Which names of environment variables a Secret beside an instance may set in a task.

An allow-list: the task and the tools it starts read many more names than anybody can list, and some of
them decide where a state is kept, which programs run and where requests go.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

TERRAFORM: Final = ("TF_VAR_", "TF_TOKEN_")
"""Input variables, and credentials of private registries: the only names of Terraform's own."""
ALLOWED: Final = (
    *TERRAFORM,
    "ALICLOUD_", "ARM_", "AWS_", "AZURE_", "CLOUDFLARE_", "DATADOG_", "DD_", "DIGITALOCEAN_", "GITHUB_",
    "GITLAB_", "GOOGLE_", "HCLOUD_", "IBMCLOUD_", "LINODE_", "MONGODB_ATLAS_", "NEW_RELIC_", "OCI_", "OKTA_",
    "OS_", "OVH_", "PAGERDUTY_", "SCW_", "SNOWFLAKE_", "VAULT_", "VSPHERE_",
)  # fmt: skip
"""How the names of credentials and settings of providers begin."""
OPTION: Final = "--allow-environment"
"""Option of the manager for more prefixes."""
_PLATFORM: Final = (
    "BASH", "CHECKPOINT_DISABLE", "DYLD_", "GCONV_PATH", "GIT_", "GLIBC_", "GODEBUG", "HELM_", "HOME",
    "KUBE", "LD_", "LOCPATH", "MALLOC_", "OPENSSL_", "PATH", "PYTHON", "SHELL", "SSH_", "SSL_CERT_", "TASK_",
    "TEMP", "TERRAFORM_", "TF_", "TMP", "XDG_",
)  # fmt: skip
_PROXIES: Final = re.compile(r"(ALL|FTP|HTTP|HTTPS|NO|SOCKS)_PROXY")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN: Final = 5


def environment_problem(variables: Mapping[str, str], more: Iterable[str] = ()) -> str:
    """Return which variables are refused, and what to do; empty where all are allowed.

    `variables`: by name, where the variable comes from. `more`: prefixes that the manager allows besides.
    """
    found = {name: _problem(name, more) for name in variables}
    refused = [f"{variables[name]} {problem}" for name, problem in found.items() if problem]
    rest = len(refused) - _SHOWN
    return "; ".join([*refused[:_SHOWN], *([f"and {rest} more"] if rest > 0 else [])])


def prefix_problem(prefix: str, more: Iterable[str] = ()) -> str:
    """Return why no variable that begins with `prefix` can be allowed; empty where one can."""
    if any(prefix.startswith(each) or each.startswith(prefix) for each in (*TERRAFORM, *ALLOWED)):
        return ""
    if _is_platforms(prefix) or not any(
        prefix.startswith(each) or each.startswith(prefix) for each in more
    ):
        return _remedy(prefix)
    return ""


def option_problem(prefix: str) -> str:
    """Return why the option may not allow a prefix; empty if it may."""
    if _NAME.fullmatch(prefix) is None:
        return f"{prefix!r} begins no name of a variable: write a prefix such as ACME_"
    if _is_platforms(prefix):
        return (
            f"{prefix!r}: the platform sets such variables itself, and no Secret may replace them; to set one"
            " for all tasks, use --task-environment NAME=VALUE"
        )
    return ""


def _problem(name: str, more: Iterable[str]) -> str:
    if _NAME.fullmatch(name) is None:
        return f"cannot be a variable (as {name!r}): rename it, or give the source another prefix"
    if name.startswith(TERRAFORM):
        return ""
    if not _is_platforms(name) and name.startswith((*ALLOWED, *more)):
        return ""
    return f"cannot be a variable (as {name!r}): {_remedy(name)}"


def _remedy(name: str) -> str:
    if _is_platforms(name):
        return (
            "the platform sets such variables itself, so remove it; the administrator of the manager may set it"
            " for all tasks, by --task-environment"
        )
    return (
        "only names that begin with TF_VAR_, ARM_, AWS_, GOOGLE_ or another known prefix of providers are"
        f" allowed: rename it, or start the manager with {OPTION} {name}"
    )


def _is_platforms(name: str) -> bool:
    """Whether the task, its tools or their libraries read it, in whatever case, to find what they run."""
    if name.startswith(TERRAFORM):
        return False
    upper = name.upper()
    return upper.startswith(_PLATFORM) or _PROXIES.fullmatch(upper) is not None


def parse_prefixes(text: str) -> Sequence[str]:
    """Return the prefixes that the manager gave to a task, separated by commas."""
    return [each for each in text.split(",") if each]

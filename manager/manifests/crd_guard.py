"""The admission policy of `config/guard`, by which CRDs of this product are deleted only with an approval.

The API server enforces it, so that it holds while no manager runs. Kubernetes 1.30 and newer.
"""

from typing import Final

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client import APIError, Client, Forbidden, NotFound
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import removal_of, remove_object

NAME: Final = "ctrlruntime-crds"
_GROUP: Final = "admissionregistration.k8s.io"
BINDING: Final = BUILTIN[GroupVersionKind(_GROUP, "v1", "ValidatingAdmissionPolicyBinding")]
POLICY: Final = BUILTIN[GroupVersionKind(_GROUP, "v1", "ValidatingAdmissionPolicy")]


async def remove_guard(client: Client) -> bool:
    """Delete the policy and its binding, the binding first. Return whether there was one.

    The server may enforce it for a moment longer. Raises the client's errors, other than NotFound.
    """
    found = False
    for mapping in (BINDING, POLICY):
        removal = removal_of(mapping, {"name": NAME}, Cause.UNINSTALLED, Evidence.CERTAIN)
        try:
            await remove_object(client, mapping, removal)
        except NotFound:
            continue
        found = True
    return found


def is_denied_by_guard(error: APIError) -> bool:
    """Return whether the policy refused a request."""
    return isinstance(error, Forbidden) and f"ValidatingAdmissionPolicy '{NAME}'" in str(error)

"""Labels and names of what the operator makes for a stack."""

from typing import Final

from apis.fleet import GROUP

FIELD_MANAGER: Final = "fleet-operator"
"""Field manager of everything that the operator applies."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
"""Label: FIELD_MANAGER, on every object and Pod of a stack."""
NAME: Final = "app.kubernetes.io/name"
"""Label: the workload."""
SELECTED: Final = {MANAGED_BY: FIELD_MANAGER}
"""Labels of everything that the operator watches."""
KUBECONFIG_HASH: Final = f"{GROUP}/kubeconfig-hash"
"""Annotation of Pod templates: hash of the kubeconfig, so that another one rolls the Pods."""
CONTROLLERS: Final = "fleet-controllers"
ADMISSION: Final = "fleet-admission"
WORKERS: Final = "fleet-workers"
ACCOUNT: Final = "fleet-stack"
"""ServiceAccount of the Pods."""
STACK: Final = f"{GROUP}/stack"
"""Label of bindings: the target namespace whose stack they give rights to."""

"""The webhooks of the tenancy system without its controllers: the role `admission`."""

from __future__ import annotations

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.manager import Manager
from internal.tenancy.rendering import Renderer
from internal.tenancy.template.admission import ADMISSION, TENANT_ADMISSION, TenancyAdmission
from internal.tenancy.template.compiled import Blueprints
from manager.controllers.closing import Closing
from manager.controllers.tenancy_options import TenancyOptions


def add_tenancy_admission(manager: Manager, options: TenancyOptions) -> None:
    """Serve the webhooks of registries, templates and tenants.

    Manifests are not checked against schemas: workloads go to the hub, the others to the data plane.
    """
    registries = manager.cache.declare(TenantRegistry).informer.store
    renderer = Renderer()
    admission = TenancyAdmission(Blueprints(renderer, options.privileges), registries)
    serve = manager.webhooks.register
    serve(TenantRegistry, admission.check_registry, options=ADMISSION)
    serve(TenantTemplate, admission.check_template, options=ADMISSION)
    serve(Tenant, admission.check_tenant, options=TENANT_ADMISSION)
    manager.add(Closing(renderer.close))

"""The names that an instance is reached by."""

from apis.cloud import InstanceSpec


def primary_domain(spec: InstanceSpec) -> str | None:
    """Return the name that people type: a custom one marked as primary, the newer field, or the older."""
    custom = next((item.dns_name for item in spec.custom_domains if item.primary), None)
    return custom or spec.primary_dns_name or spec.domain


def platform_domain(spec: InstanceSpec) -> str | None:
    """Return the name of the platform's own zone that the infrastructure makes."""
    return spec.primary_dns_name or spec.domain


def all_domains(spec: InstanceSpec) -> frozenset[str]:
    """Every name, in lower case and without a final dot, as DNS compares them."""
    names = [spec.domain, spec.primary_dns_name, *(item.dns_name for item in spec.custom_domains)]
    return frozenset(name.lower().rstrip(".") for name in names if name)

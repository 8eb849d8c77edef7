"""Templates of manifests: Jinja2 in a sandbox, or the Go spelling, rendered once, within limits."""

from internal.tenancy.rendering.checking import Report
from internal.tenancy.rendering.errors import RenderError
from internal.tenancy.rendering.manifests import Manifest, combine
from internal.tenancy.rendering.renderer import Renderer, RendererOptions

__all__ = ["Manifest", "RenderError", "Renderer", "RendererOptions", "Report", "combine"]

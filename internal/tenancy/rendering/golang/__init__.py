"""The Go text/template spelling of templates, translated to Jinja2 source."""

from internal.tenancy.rendering.golang.expressions import GO_PREFIX
from internal.tenancy.rendering.golang.pieces import actions_length
from internal.tenancy.rendering.golang.translation import ROOT, translate

__all__ = ["GO_PREFIX", "ROOT", "actions_length", "translate"]

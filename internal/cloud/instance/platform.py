"""What the outputs of the infrastructure say of Google Cloud. Pure."""

import json
from collections.abc import Mapping

from apis.cloud import GCPStatus, NamedResource

PROJECT = "project_id"
REGION = "region"
CLUSTERS = "gke_clusters"
DATABASES = "cloudsql_instances"


def gcp_of(outputs: Mapping[str, str]) -> GCPStatus | None:
    """Project, region, clusters and databases; None if the outputs tell of none of them.

    Names are a JSON list of texts, or one text.
    """
    if not any(outputs.get(name) for name in (PROJECT, REGION, CLUSTERS, DATABASES)):
        return None
    return GCPStatus(
        project_id=outputs.get(PROJECT, ""),
        region=outputs.get(REGION, ""),
        gke_clusters=_names(outputs.get(CLUSTERS, "")),
        cloud_sql=_names(outputs.get(DATABASES, "")),
    )


def _names(text: str) -> list[NamedResource]:
    if not text:
        return []
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    items = found if isinstance(found, list) else [text]
    return [NamedResource(name=str(item)) for item in items]

"""One TenantRegistry: read, planned, written and reported."""

"""One TenantTemplate: compiled, checked, rolled out, revised."""

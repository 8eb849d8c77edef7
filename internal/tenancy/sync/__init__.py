"""Rows, templates and tenants compared: what is made, changed, replaced and held back. Pure."""

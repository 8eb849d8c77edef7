"""Tenants from SQL rows: the business logic of the tenancy system."""

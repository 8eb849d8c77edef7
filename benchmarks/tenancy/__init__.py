"""What a fleet of tenants costs: `python -m benchmarks.tenancy`."""

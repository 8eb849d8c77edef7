"""What several managers cost that share the tenants: `python -m benchmarks.shards`."""

"""`make bench-runtime`: custom resources, each reconciled to one ConfigMap and one status write."""

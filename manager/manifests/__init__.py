"""What `make manifests` and an installation write."""

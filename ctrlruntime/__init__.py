"""A controller runtime for Kubernetes in asyncio."""

"""The task that builds the infrastructure of an instance with Terraform."""

"""Terraform runs by HCP Terraform, or Terraform Enterprise."""

"""What nodes say of themselves over HTTP."""

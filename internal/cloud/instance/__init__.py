"""The Instance controller: subresources in order, and one status for people."""

"""What concerns the systems together: freezes of their changes."""

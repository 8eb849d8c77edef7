"""One Tenant: its reconciler, what is applied, what is removed, and its status."""

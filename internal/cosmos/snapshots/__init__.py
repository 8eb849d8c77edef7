"""Regular copies of disks."""

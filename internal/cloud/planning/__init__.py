"""What a changed Instance, or a FleetRollout, would do. Writes nothing."""

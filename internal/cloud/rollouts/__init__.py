"""FleetRollouts: a version for many instances, in waves."""

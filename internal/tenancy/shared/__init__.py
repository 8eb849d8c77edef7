"""What all rooms of tenancy speak of: labels, names, policies, rights, outcomes and counts."""

"""What sets of nodes cost at rest."""

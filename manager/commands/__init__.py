"""The commands of the manager, a module each, and what they share."""

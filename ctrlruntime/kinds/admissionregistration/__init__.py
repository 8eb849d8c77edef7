"""Typed kinds of the group admissionregistration."""

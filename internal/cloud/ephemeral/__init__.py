"""Ephemeral instances: made with a few words, gone when their lease ends."""

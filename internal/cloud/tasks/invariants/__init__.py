"""The task that makes true what has to be true of a running instance."""

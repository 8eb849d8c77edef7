-- What can be done to a kind of tenancy: have it looked at now.
return { ["reconcile"] = { ["disabled"] = false } }

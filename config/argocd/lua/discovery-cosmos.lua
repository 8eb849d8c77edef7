-- What can be done to regular snapshots and Jobs: suspend, resume.
local suspended = (obj.spec or {}).suspend == true
return {
  ["suspend"] = { ["disabled"] = suspended },
  ["unsuspend"] = { ["disabled"] = not suspended },
}

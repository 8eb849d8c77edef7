-- A FleetRollout by its phase.
local hs = { status = "Progressing", message = "Waiting for the manager" }
local metadata = obj.metadata or {}
local status = obj.status

if metadata.deletionTimestamp ~= nil then
  hs.message = "Being deleted"
  return hs
end
if status == nil or status.observedGeneration == nil then
  return hs
end
if status.observedGeneration < (metadata.generation or 0) then
  hs.message = "Waiting for the manager to see the change"
  return hs
end
local words = {
  Complete = "Healthy", Superseded = "Healthy", Aborted = "Healthy",
  Paused = "Suspended", WaitingForApproval = "Suspended",
  Halted = "Degraded", RollingBack = "Degraded", RolledBack = "Degraded", Invalid = "Degraded",
}
hs.status = words[status.phase or ""] or "Progressing"
hs.message = status.message or ""
if hs.message == "" then
  hs.message = (status.updated or 0) .. " of " .. (status.total or 0) .. " instances have the version"
end
return hs

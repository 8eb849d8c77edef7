-- A set of nodes by its phase; regular snapshots and Jobs by what came of the last one.
local hs = { status = "Progressing", message = "Waiting for the manager" }
local metadata = obj.metadata or {}
local spec = obj.spec or {}
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
hs.message = status.status or ""

if obj.kind == "CosmosFullNode" then
  local words = { Complete = "Healthy", Error = "Degraded" }
  hs.status = words[status.phase or ""] or "Progressing"
  local blocked = (status.rollout or {}).blocked or ""
  if hs.status == "Progressing" and blocked ~= "" then
    hs.message = blocked
  end
  return hs
end

if spec.suspend == true then
  hs.status = "Suspended"
  return hs
end
for _, condition in ipairs(status.conditions or {}) do
  if condition.type == "CRDsAvailable" and condition.status == "False" then
    hs.status = "Degraded"
    hs.message = condition.message
    return hs
  end
end
local why = (status.lastSnapshot or {}).failed or ""
local last = (status.jobHistory or {})[1]
if last ~= nil and (last.outcome == "Failed" or last.outcome == "Lost") then
  why = last.message or ""
  if why == "" then
    why = "Job " .. last.name .. ": " .. last.outcome
  end
end
hs.status = "Healthy"
if why ~= "" then
  hs.status = "Degraded"
  hs.message = why
end
return hs

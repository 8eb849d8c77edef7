-- Instance, its subresources and upgrades: one word of status.phase, and what is being done.
local hs = { status = "Progressing", message = "Waiting for the manager" }
local metadata = obj.metadata or {}
local status = obj.status

if metadata.deletionTimestamp ~= nil then
  hs.message = "Being deleted"
  if status ~= nil and status.phase == "Deleting" and (status.message or "") ~= "" then
    hs.message = status.message
  end
  return hs
end
if status == nil or status.phase == nil then
  return hs
end
if (status.observedGeneration or 0) < (metadata.generation or 0) then
  hs.message = "Waiting for the manager to see the change"
  return hs
end

local words = {
  Ready = "Healthy",
  Superseded = "Healthy",
  Failed = "Degraded",
  Paused = "Suspended",
  Extracted = "Suspended",
}
hs.status = words[status.phase] or "Progressing"
hs.message = status.message or ""

if status.phase == "Ready" then
  local ready = false
  for _, condition in ipairs(status.conditions or {}) do
    if condition.type == "Ready" and condition.status == "True" then
      ready = true
    end
  end
  if not ready then
    hs.status = "Progressing"
  end
end

local waiting = status.waiting
if hs.status == "Progressing" and waiting ~= nil then
  local place = ""
  if (waiting.position or 0) > 0 then
    place = ", position " .. tostring(waiting.position)
  end
  local holder = ""
  if (waiting.holder or "") ~= "" then
    holder = " behind " .. waiting.holder
  end
  hs.message = "Waiting (" .. waiting.reason .. place .. ")" .. holder
elseif hs.status == "Progressing" and hs.message == "" then
  local newest = (status.taskConditions or {})[1]
  if newest ~= nil then
    hs.message = newest.type .. ": " .. (newest.message or "")
  else
    hs.message = status.phase
  end
end
return hs

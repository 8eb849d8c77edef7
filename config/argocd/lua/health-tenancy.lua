-- TenantRegistry, TenantTemplate and Tenant: their conditions, the worst first.
local hs = { status = "Progressing", message = "Waiting for the manager" }
local metadata = obj.metadata or {}
local status = obj.status

if metadata.deletionTimestamp ~= nil then
  hs.message = "Being deleted"
  return hs
end
if status == nil or status.conditions == nil then
  return hs
end
if (status.observedGeneration or 0) < (metadata.generation or 0) then
  hs.message = "Waiting for the manager to see the change"
  return hs
end

local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end

local function is(kind, value)
  local condition = conditions[kind]
  return condition ~= nil and condition.status == value
end

local function answer(word, kind)
  return { status = word, message = conditions[kind].message or "" }
end

for _, kind in ipairs({ "Degraded", "Conflicted", "DeletionsHeld" }) do
  if is(kind, "True") then
    return answer("Degraded", kind)
  end
end
for _, kind in ipairs({ "Valid", "PermissionsGranted", "RowsValid", "TenantsSynced" }) do
  if is(kind, "False") then
    return answer("Degraded", kind)
  end
end

if obj.kind == "TenantTemplate" then
  if is("Applied", "True") then
    return answer("Healthy", "Applied")
  end
  if conditions.Applied ~= nil then
    return answer("Progressing", "Applied")
  end
  return hs
end
if is("Ready", "True") then
  return answer("Healthy", "Ready")
end
if obj.kind == "TenantRegistry" and is("Ready", "False") then
  return answer("Degraded", "Ready")
end
if conditions.Ready ~= nil then
  return answer("Progressing", "Ready")
end
return hs

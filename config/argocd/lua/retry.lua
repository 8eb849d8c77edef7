-- A value that was not there before asks for another attempt.
obj.metadata.annotations = obj.metadata.annotations or {}
local last = tonumber(obj.metadata.annotations["cloud.ctrlruntime.dev/retry"]) or 0
local handled = tonumber((obj.status or {}).lastHandledRetry) or 0
if handled > last then
  last = handled
end
obj.metadata.annotations["cloud.ctrlruntime.dev/retry"] = tostring(last + 1)
return obj

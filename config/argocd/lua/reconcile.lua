-- A value that was not there before has the object looked at now.
obj.metadata.annotations = obj.metadata.annotations or {}
local last = tonumber(obj.metadata.annotations["ctrlruntime.dev/reconcile-now"]) or 0
local handled = tonumber((obj.status or {}).lastHandledReconcile) or 0
if handled > last then
  last = handled
end
obj.metadata.annotations["ctrlruntime.dev/reconcile-now"] = tostring(last + 1)
return obj

-- What can be done to an Instance or a subresource: pause, resume, retry.
local annotations = (obj.metadata or {}).annotations or {}
local status = obj.status or {}
local paused = annotations["cloud.ctrlruntime.dev/paused"] == "true"
local failed = status.phase == "Failed" or status.phase == "Retrying"
return {
  ["pause"] = { ["disabled"] = paused },
  ["resume"] = { ["disabled"] = not paused },
  ["retry"] = { ["disabled"] = not failed },
}

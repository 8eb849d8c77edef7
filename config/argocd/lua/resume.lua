if obj.metadata.annotations ~= nil then
  obj.metadata.annotations["cloud.ctrlruntime.dev/paused"] = nil
end
return obj

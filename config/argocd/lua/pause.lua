-- No new run is started; one that is under way is awaited.
obj.metadata.annotations = obj.metadata.annotations or {}
obj.metadata.annotations["cloud.ctrlruntime.dev/paused"] = "true"
return obj

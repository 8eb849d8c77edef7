-- Nothing new is begun; a node that is down for a snapshot is restored.
obj.spec.suspend = true
return obj

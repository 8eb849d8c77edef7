"""Simulated nodes: ordinary controllers that let workloads progress where there are no kubelets.

They stand in for the controllers of kube-controller-manager and for one kubelet: Deployments,
ReplicaSets, StatefulSets, DaemonSets, Jobs, Pods, claims, load balancers, Ingresses, autoscalers
and disruption budgets. CronJobs, EndpointSlices, PersistentVolumes and ControllerRevisions are not
simulated.
"""

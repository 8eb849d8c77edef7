{{- define "ctrlruntime.name" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 27 | trimSuffix "-" -}}
{{- end -}}

{{- define "ctrlruntime.account" -}}
{{- default (printf "%s-controller-manager" (include "ctrlruntime.name" .)) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* Pods are told apart by the release, so that two of them can be in one namespace. */ -}}
{{- define "ctrlruntime.selector" -}}
app.kubernetes.io/name: ctrlruntime
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end -}}

{{- define "ctrlruntime.labels" -}}
app.kubernetes.io/name: ctrlruntime
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The key of files/rights.yaml: the systems in their order, or all. */ -}}
{{- define "ctrlruntime.systems" -}}
{{- if .Values.systems }}{{ uniq .Values.systems | sortAlpha | join "-" }}{{ else }}all{{ end -}}
{{- end -}}

{{- /* Called with the root and a group such as tenancy.ctrlruntime.dev: not empty if its system is installed. Every system honours what is in operations. */ -}}
{{- define "ctrlruntime.has" -}}
{{- $root := index . 0 -}}
{{- $system := index . 1 | splitList "." | first -}}
{{- if or (not $root.Values.systems) (eq $system "operations") (has $system $root.Values.systems) }}yes{{ end -}}
{{- end -}}

{{- define "ctrlruntime.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "ctrlruntime.subject" -}}
- kind: ServiceAccount
  name: {{ include "ctrlruntime.account" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

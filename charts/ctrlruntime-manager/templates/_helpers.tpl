{{- define "ctrlruntime.name" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 27 | trimSuffix "-" -}}
{{- end -}}

{{- /* Puts the systems into .Values.systems where none are given: of a new release tenancy; of an upgraded one those whose Deployments are there. */ -}}
{{- define "ctrlruntime.choose" -}}
{{- if kindIs "invalid" .Values.systems -}}
{{- $set := "set `systems`: `--set systems={tenancy}` for a new installation, `--set systems={cloud,cosmos,tenancy}` for a release that has all" -}}
{{- if not (lookup "v1" "Namespace" "" "kube-system") -}}
{{- fail (printf "no cluster can be read here, so the systems that a release has cannot be seen: %s" $set) -}}
{{- end -}}
{{- $found := list -}}
{{- if .Release.IsUpgrade -}}
{{- $name := include "ctrlruntime.name" . -}}
{{- range $system := list "cloud" "cosmos" "tenancy" -}}
{{- if lookup "apps/v1" "Deployment" $.Release.Namespace (printf "%s-%s-controller-manager" $name $system) -}}
{{- $found = append $found $system -}}
{{- end -}}
{{- end -}}
{{- with lookup "apps/v1" "Deployment" .Release.Namespace (printf "%s-controller-manager" $name) -}}
{{- $named := list -}}
{{- range (index .spec.template.spec.containers 0).args -}}
{{- if hasPrefix "--system=" . -}}{{- $named = append $named (trimPrefix "--system=" .) -}}{{- end -}}
{{- end -}}
{{- $found = concat $found (default (list "cloud" "cosmos" "tenancy") $named) -}}
{{- end -}}
{{- if not $found -}}
{{- fail (printf "no Deployment of this release is there, so the systems that it has cannot be seen: %s" $set) -}}
{{- end -}}
{{- else -}}
{{- $found = list "tenancy" -}}
{{- end -}}
{{- $_ := set .Values "systems" (uniq $found | sortAlpha) -}}
{{- end -}}
{{- end -}}

{{- /* The Deployments, each with an account of its own: one, or one for each system. YAML, as a map with the key `parts`. */ -}}
{{- define "ctrlruntime.parts" -}}
{{- $name := include "ctrlruntime.name" . -}}
{{- if eq .Chart.Version "0.0.0" -}}
{{- fail "this folder is the source of a chart, without the CRDs, roles and webhooks that are generated: run `make chart` in the repository, and install dist/ctrlruntime-manager-VERSION.tgz" -}}
{{- end -}}
{{- include "ctrlruntime.choose" . -}}
{{- if and .Values.accounts.bySystem .Values.serviceAccount.name -}}
{{- fail "accounts.bySystem makes an account for each system: leave serviceAccount.name empty, or set accounts.bySystem=false for one manager with that account" -}}
{{- end -}}
{{- if and .Values.perSystem (not .Values.accounts.bySystem) -}}
{{- fail "perSystem is for Deployments by system: use args and resources, or set accounts.bySystem=true" -}}
{{- end -}}
parts:
{{- if .Values.accounts.bySystem }}
{{- range default (list "tenancy" "cloud" "cosmos") .Values.systems | uniq | sortAlpha }}
- name: {{ $name }}-{{ . }}
  component: {{ . }}
  systems: [{{ . }}]
  rights: {{ . }}
  lease: {{ . }}.manager.ctrlruntime.dev
  account: {{ $name }}-{{ . }}-controller-manager
  secret: {{ . }}-webhook-server-cert
{{- end }}
{{- else }}
- name: {{ $name }}
  component: ""
  systems: {{ uniq .Values.systems | sortAlpha | toJson }}
  rights: {{ include "ctrlruntime.systems" . }}
  lease: manager.ctrlruntime.dev
  account: {{ default (printf "%s-controller-manager" $name) .Values.serviceAccount.name }}
  secret: webhook-server-cert
{{- end }}
{{- end -}}

{{- /* Called with the root and a part: not empty if it serves webhooks. */ -}}
{{- define "ctrlruntime.serves" -}}
{{- $root := index . 0 -}}
{{- if $root.Values.webhooks.enabled }}yes{{ end -}}
{{- end -}}

{{- /* Called with the root and a part: what selects its Pods alone. */ -}}
{{- define "ctrlruntime.partSelector" -}}
{{ include "ctrlruntime.selector" (index . 0) }}
{{- with (index . 1).component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- /* Called with the root and a part: labels of what only it has. */ -}}
{{- define "ctrlruntime.partLabels" -}}
{{ include "ctrlruntime.labels" (index . 0) }}
{{- with (index . 1).component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
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
{{- include "ctrlruntime.choose" $root -}}
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

{{- /* Called with the root and a part: its account. */ -}}
{{- define "ctrlruntime.subject" -}}
- kind: ServiceAccount
  name: {{ (index . 1).account }}
  namespace: {{ (index . 0).Release.Namespace }}
{{- end -}}

{{- define "rlcm.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "rlcm.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "rlcm.labels" -}}
{{ include "rlcm.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{/* An argument as text: numbers without an exponent. */}}
{{- define "rlcm.argument" -}}
{{- if kindIs "string" . }}{{ . | quote }}{{ else }}{{ . | toJson | quote }}{{ end -}}
{{- end -}}

{{- define "rlcm.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "rlcm.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "rlcm.check" -}}
{{- if not .Values.database.secret -}}
{{- fail "keys, certificates and jobs live in PostgreSQL, so that a pod can go: set database.secret to a Secret with its address" -}}
{{- end -}}
{{- with .Values.metrics -}}
{{- if and .podMonitor (not .open) (not .secret) -}}
{{- fail "Prometheus needs a key for /metrics unless metrics.open: set metrics.secret to a Secret with one (rlcm keys new --name prometheus --scope metrics)" -}}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas is %v and maxReplicas %v: give at least as many" .minReplicas .maxReplicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}

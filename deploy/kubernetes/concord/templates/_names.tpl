{{/* The name of everything that there is once in a release. */}}
{{- define "concord.name" -}}
{{- if contains "concord" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-concord" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end -}}
{{- end }}

{{- define "concord.selector" -}}
app.kubernetes.io/name: concord
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "concord.labels" -}}
{{ include "concord.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "concord.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "concord.sparkImage" -}}
{{ .Values.reconciliation.image.repository }}:{{ .Values.reconciliation.image.tag | default .Chart.AppVersion }}
{{- end }}

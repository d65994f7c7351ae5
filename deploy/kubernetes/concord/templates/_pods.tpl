{{/* What all pods have: no privileges, and no way to the API of Kubernetes. */}}
{{- define "concord.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "concord.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The settings of the node. */}}
{{- define "concord.environment" -}}
- name: CONCORD_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secret }}, key: {{ .Values.database.key }}}}
- name: CONCORD_ENCRYPTION_KEY
  valueFrom: {secretKeyRef: {name: {{ .Values.encryption.secret }}, key: {{ .Values.encryption.key }}}}
- name: CONCORD_PUBLIC_URL
  value: {{ required "publicUrl is the URL at which others reach this node" .Values.publicUrl | quote }}
# The names by which pods of this cluster reach it.
- name: CONCORD_HOSTS
  value: {{ $name := include "concord.name" . }}{{ printf "%s,%s.%s,%s.%s.svc,%s.%s.svc.cluster.local" $name $name .Release.Namespace $name .Release.Namespace $name .Release.Namespace | quote }}
{{- if .Values.open }}
- name: CONCORD_OPEN
  value: "true"
{{- end }}
{{- range $name, $value := .Values.settings }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range .Values.secretSettings }}
- name: {{ .name }}
  valueFrom: {secretKeyRef: {name: {{ .secret }}, key: {{ .key }}}}
{{- end }}
{{- end }}

{{- define "concord.placement" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

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
{{- $known := or .Values.oidc.issuers .Values.tls.clientCa.secret .Values.anonymousRole }}
{{- if .Values.open }}
{{- if $known }}{{ fail "open lets everybody in, so name nobody besides" }}{{ end }}
- name: CONCORD_OPEN
  value: "true"
{{- else if not $known }}
{{- fail "nobody could use the node: set oidc, tls.clientCa or anonymousRole, or open=true" }}
{{- end }}
{{- with .Values.oidc.issuers }}
- name: CONCORD_OIDC_ISSUERS
  value: {{ join "," . | quote }}
- name: CONCORD_OIDC_AUDIENCES
  value: {{ join "," $.Values.oidc.audiences | quote }}
- name: CONCORD_OIDC_ROLES
  value: {{ join "," $.Values.oidc.roles | quote }}
{{- end }}
{{- with .Values.anonymousRole }}
- name: CONCORD_ANONYMOUS_ROLE
  value: {{ . }}
{{- end }}
{{- if .Values.tls.secret }}
- name: CONCORD_TLS_CERT
  value: /etc/concord/tls/tls.crt
- name: CONCORD_TLS_KEY
  value: /etc/concord/tls/tls.key
{{- end }}
{{- with .Values.tls.clientCa }}
{{- if .secret }}
- name: CONCORD_TLS_CLIENT_CA
  value: /etc/concord/clients/{{ .key }}
- name: CONCORD_CERTIFICATE_ROLES
  value: {{ join "," .roles | quote }}
{{- end }}
{{- end }}
{{- if .Values.trust.secret }}
- name: SSL_CERT_FILE
  value: /etc/concord/trust/{{ .Values.trust.key }}
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

{{/* The Secrets that the node reads as files, by the names of directories below /etc/concord. */}}
{{- define "concord.secrets" -}}
{{- $given := dict "tls" .Values.tls.secret "clients" .Values.tls.clientCa.secret "trust" .Values.trust.secret }}
{{- range $name, $secret := $given }}
{{- if $secret }}
- {name: {{ $name }}, secret: {secretName: {{ $secret }}, defaultMode: 0440}}
{{- end }}
{{- end }}
{{- end }}

{{- define "concord.secretMounts" -}}
{{- range include "concord.secrets" . | fromYamlArray }}
- {name: {{ .name }}, mountPath: /etc/concord/{{ .name }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "concord.scheme" -}}
{{ ternary "HTTPS" "HTTP" (ne .Values.tls.secret "") }}
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

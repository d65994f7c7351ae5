{{/* The arguments of `concord reconcile`, as strings of a list. */}}
{{- define "concord.comparison" -}}
{{- if lt (len .Values.reconciliation.catalogs) 2 }}{{ fail "reconciliation.catalogs names two or more" }}{{ end }}
{{- range $name, $url := .Values.reconciliation.catalogs }}
- {{ printf "--catalog=%s=%s" $name $url | quote }}
{{- end }}
{{- range $name, $token := .Values.reconciliation.tokens }}
- {{ printf "--token-from=%s=%s" $name (include "concord.tokenVariable" $name) | quote }}
{{- end }}
{{- /* Processes of Spark on several machines write one report: that takes a volume that they share. */}}
{{- if or (eq .Values.reconciliation.mode "cronjob") (not (hasKey .Values.reconciliation.reports "emptyDir")) }}
- --report=/reports/last
{{- end }}
{{- range .Values.reconciliation.arguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The variable with the token of a catalog; such a name has letters, digits and _ only. */}}
{{- define "concord.tokenVariable" -}}
CATALOG_TOKEN_{{ regexReplaceAll "[^A-Z0-9]" (upper .) "_" }}
{{- end }}

{{/* The arguments of `concord reconcile`, as strings of a list. */}}
{{- define "concord.comparison" -}}
{{- if lt (len .Values.reconciliation.catalogs) 2 }}{{ fail "reconciliation.catalogs names two or more" }}{{ end }}
{{- range $name, $url := .Values.reconciliation.catalogs }}
- {{ printf "--catalog=%s=%s" $name $url | quote }}
{{- end }}
{{- /* Processes of Spark on several machines write one report: that takes a volume that they share. */}}
{{- if or (eq .Values.reconciliation.mode "cronjob") (not (hasKey .Values.reconciliation.reports "emptyDir")) }}
- --report=/reports/last
{{- end }}
{{- range .Values.reconciliation.arguments }}
- {{ . | quote }}
{{- end }}
{{- end }}

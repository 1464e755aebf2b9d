{{- define "pawl.name" -}}
{{- if contains "pawl" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-pawl" .Release.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}
{{- define "pawl.selector" -}}
app.kubernetes.io/name: pawl
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "pawl.labels" -}}
{{ include "pawl.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}
{{- define "pawl.database" -}}
- name: PAWL_DB
  valueFrom:
    secretKeyRef:
      name: {{ required "database.secret names the secret with the URL of the database" .Values.database.secret }}
      key: {{ .Values.database.key }}
{{- with .Values.database.schema }}
- name: PAWL_SCHEMA
  value: {{ . | quote }}
{{- end }}
{{- end -}}
{{- define "pawl.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end -}}
{{- define "pawl.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- define "pawl.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "adjutant.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "adjutant.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "adjutant.labels" -}}
{{ include "adjutant.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "adjutant.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "adjutant.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "adjutant.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "adjutant.databaseSecret" -}}
{{- .Values.database.existingSecret | default (printf "%s-database" (include "adjutant.name" .)) }}
{{- end }}

{{- /* The settings of a pool: its own, and the defaults for the rest. */}}
{{- define "adjutant.pool" -}}
{{- $pool := .pool | default dict }}
{{- mergeOverwrite (deepCopy .defaults) $pool | toYaml }}
{{- end }}

{{- /* A pool's name in names of objects, which may have no capital letter, dot or underscore. A
digest keeps names apart that differ only there. */}}
{{- define "adjutant.poolName" -}}
{{- $plain := regexReplaceAll "[^a-z0-9-]+" (lower .) "-" | trimAll "-" | trunc 30 | trimSuffix "-" }}
{{- if eq $plain . }}{{ $plain }}{{ else }}{{ printf "%s-%s" $plain (sha256sum . | trunc 6) | trimPrefix "-" }}{{ end }}
{{- end }}

{{- define "adjutant.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "adjutant.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "adjutant.databaseEnv" -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "adjutant.databaseSecret" . }}
      key: {{ ternary .Values.database.urlKey "url" (ne .Values.database.existingSecret "") }}
{{- end }}

{{- define "adjutant.listenEnv" -}}
{{- if .Values.database.existingSecret }}
{{- with .Values.database.listenUrlKey }}
- name: ADJUTANT_LISTEN_URL
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.database.existingSecret }}
      key: {{ . }}
{{- end }}
{{- else if .Values.database.listenUrl }}
- name: ADJUTANT_LISTEN_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "adjutant.databaseSecret" . }}
      key: listenUrl
{{- end }}
{{- end }}

{{- define "adjutant.configEnv" -}}
- name: ADJUTANT_CONFIG
  value: /etc/adjutant/adjutant.toml
- name: ADJUTANT_LOG_FORMAT
  value: json
{{- end }}

{{- define "adjutant.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {{ . | toJson }}}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector: {matchLabels: {{ . | toJson }}}
{{- end }}

{{- define "adjutant.toml" -}}
{{- if .Values.demo.enabled -}}
[models.script]
wire = "openai"
base_url = "http://{{ include "adjutant.name" . }}-script-model:9000/v1"

[agents.smoke]
description = "Answers from a script"
system_prompt = "You answer from a script."
{{- else -}}
{{ .Values.config }}
{{- end }}
{{- end }}

{{- define "headlight.selector" -}}
app.kubernetes.io/name: headlight
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headlight.labels" -}}
{{ include "headlight.selector" . }}
app.kubernetes.io/component: server
app.kubernetes.io/part-of: headlight
app.kubernetes.io/version: {{ .Chart.AppVersion }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "headlight.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "headlight.claim" -}}
{{ .Values.model.claim | default (printf "%s-models" .Release.Name) }}
{{- end -}}

{{- define "headlight.args" -}}
{{- if .Values.model.file -}}
args: [--models=/etc/headlight/models/models.toml]
{{- else if .Values.model.args -}}
args: {{ toJson .Values.model.args }}
{{- end -}}
{{- end -}}

{{- define "headlight.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "headlight.dns" -}}
- to: # DNS: of the cluster, of OpenShift, and NodeLocal DNSCache, at an address of the node
    - namespaceSelector:
        matchExpressions:
          - key: kubernetes.io/metadata.name
            operator: In
            values: [kube-system, openshift-dns]
    - ipBlock:
        cidr: 169.254.20.10/32
  ports: # 5353: OpenShift's pods
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
    - {port: 5353, protocol: UDP}
    - {port: 5353, protocol: TCP}
{{- end -}}

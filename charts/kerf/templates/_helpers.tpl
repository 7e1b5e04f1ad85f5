{{- define "kerf.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kerf.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "kerf.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: kerf
{{- end -}}

{{- define "kerf.node.selector" -}}
{{- if .Values.selectorLabelsOverride -}}
{{ toYaml .Values.selectorLabelsOverride }}
{{- else -}}
app.kubernetes.io/name: kerf-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "kerf.controller.selector" -}}
app.kubernetes.io/name: kerf-controller
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kerf.node.image" -}}
{{- if not (contains "kerf-node" .Values.image.repository) -}}
{{- fail (printf "image.repository is %s, and this chart starts kerf-node, by which name kerf-controller knows it: leave image out, or name an image with kerf-node in its name" .Values.image.repository) -}}
{{- end -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "kerf.controller.account" -}}
{{- with .Values.controller.serviceAccount -}}
{{- if .create -}}
{{- default (printf "%s-controller" (include "kerf.fullname" $)) .name -}}
{{- else -}}
{{- required "controller.serviceAccount.name is required when controller.serviceAccount.create is false" .name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap of device configs, or nothing. */}}
{{- define "kerf.configs" -}}
{{- if .Values.config.map -}}
{{- printf "%s-configs" (include "kerf.fullname" .) -}}
{{- else -}}
{{- .Values.config.name -}}
{{- end -}}
{{- end -}}

{{/* "true" when MPS daemons are run. */}}
{{- define "kerf.mps" -}}
{{- if kindIs "bool" .Values.mps.enabled -}}
{{- if .Values.mps.enabled -}}true{{- end -}}
{{- else -}}
{{- range .Values.config.map -}}
{{- $sharing := (fromYaml .).sharing -}}
{{- if kindIs "map" $sharing -}}
{{- if $sharing.mps -}}true{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* "true" when some node may have MIG instances: what is in a ConfigMap that
the chart does not make is not known. */}}
{{- define "kerf.mig" -}}
{{- if has .Values.migStrategy (list "single" "mixed") -}}true{{- end -}}
{{- if not .Values.migStrategy -}}
{{- if .Values.config.name -}}true{{- end -}}
{{- range .Values.config.map -}}
{{- $flags := (fromYaml .).flags -}}
{{- if kindIs "map" $flags -}}
{{- if has $flags.migStrategy (list "single" "mixed") -}}true{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kerf.strategies" -}}
{{- if kindIs "slice" .Values.deviceListStrategy -}}
{{- join "," .Values.deviceListStrategy -}}
{{- else -}}
{{- default "" .Values.deviceListStrategy -}}
{{- end -}}
{{- end -}}

{{/* As tight as what is asked for allows. The root file system is not read-only:
NVIDIA's runtime writes the linker's cache there. */}}
{{- define "kerf.node.securityContext" -}}
{{- if .Values.securityContext -}}
{{ toYaml .Values.securityContext }}
{{- else if or .Values.compatWithCPUManager (include "kerf.mps" .) -}}
privileged: true
{{- else -}}
{{- $admin := or (include "kerf.mig" .) (contains "volume-mounts" (include "kerf.strategies" .)) -}}
{{- if not $admin }}
allowPrivilegeEscalation: false
{{- end }}
capabilities:
  drop: [ALL]
  {{- if $admin }}
  add: [SYS_ADMIN]
  {{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- end -}}

{{/* Labels that tell nodes with NVIDIA GPUs before their agent runs. */}}
{{- define "kerf.node.affinity" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: karpenter.k8s.aws/instance-gpu-manufacturer, operator: In, values: [nvidia]}
      - matchExpressions:
          - {key: karpenter.azure.com/sku-gpu-manufacturer, operator: In, values: [nvidia]}
      - matchExpressions:
          - {key: nvidia.com/gpu.present, operator: In, values: ["true"]}
      {{- range list "10de" "0300_10de" "0302_10de" }}
      - matchExpressions:
          - {key: feature.node.kubernetes.io/pci-{{ . }}.present, operator: In, values: ["true"]}
      {{- end }}
      - matchExpressions:
          - {key: feature.node.kubernetes.io/cpu-model.vendor_id, operator: In, values: [NVIDIA]}
{{- end -}}

{{/* Refuses what cannot be. */}}
{{- define "kerf.check" -}}
{{- $ns := include "kerf.namespace" . -}}
{{- if and (eq $ns "default") (not .Values.allowDefaultNamespace) -}}
{{- fail "the namespace is default: install with --namespace kerf-system --create-namespace, or set allowDefaultNamespace" -}}
{{- end -}}
{{- if and .Values.config.name .Values.config.map -}}
{{- fail "config.name and config.map are both set: keep one of the two" -}}
{{- end -}}
{{- range $name, $text := .Values.config.map -}}
{{- $config := fromYaml $text -}}
{{- if hasKey $config "Error" -}}
{{- fail (printf "config.map.%s is no YAML: %s" $name $config.Error) -}}
{{- end -}}
{{- end -}}
{{- with .Values.config -}}
{{- if and .map .default (not (hasKey .map .default)) -}}
{{- fail (printf "config.default is %s, and config.map has only %s" .default (keys .map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- $named := and (has "named" .fallbackStrategies) (hasKey .map "default") -}}
{{- $single := and (has "single" .fallbackStrategies) (eq (len .map) 1) -}}
{{- if and .map (not (or .default $named $single (has "empty" .fallbackStrategies))) -}}
{{- fail (printf "config.map has %s and nothing says which of them nodes without the label nvidia.com/device-plugin.config get: set config.default, or call one of them default" (keys .map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- with .Values.controller -}}
{{- if and .enabled (eq .cloud "aws") (not .settings.clusterName) -}}
{{- fail "controller.settings.clusterName is required on aws; to install kerf-node alone, set controller.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- end -}}

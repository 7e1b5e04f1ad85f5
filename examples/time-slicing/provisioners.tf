# Two Provisioners from the days of Karpenter v1alpha5, kept in Terraform: one
# for whole GPUs, one whose nodes cut each GPU into ten slices.
locals {
  cluster = "${var.environment}-eks"
}

resource "kubectl_manifest" "whole" {
  yaml_body = <<-YAML
  apiVersion: karpenter.sh/v1alpha5
  kind: Provisioner
  metadata:
    name: whole
  spec:
    ttlSecondsAfterEmpty: 600
    labels:
      example.com/node-type: whole
      example.com/gpu: nvidia
    requirements:
      - key: node.kubernetes.io/instance-type
        operator: In
        values: [g4dn.xlarge, g4dn.2xlarge, g4dn.12xlarge]
      - key: karpenter.sh/capacity-type
        operator: In
        values: [spot, on-demand]
      - key: kubernetes.io/arch
        operator: In
        values: [amd64]
    taints:
      - key: nvidia.com/gpu
        effect: NoSchedule
    limits:
      resources:
        cpu: 500
    provider:
      launchTemplate: "gpu-${local.cluster}"
      subnetSelector:
        karpenter.sh/discovery: ${local.cluster}
    ttlSecondsAfterEmpty: 60
  YAML
}

resource "kubectl_manifest" "sliced" {
  yaml_body = <<-YAML
  apiVersion: karpenter.sh/v1alpha5
  kind: Provisioner
  metadata:
    name: sliced
  spec:
    ttlSecondsAfterEmpty: 60
    labels:
      example.com/node-type: sliced
      example.com/gpu: nvidia
      nvidia.com/device-plugin.config: ten-slices
    requirements:
      - key: node.kubernetes.io/instance-type
        operator: In
        values: [g4dn.xlarge, g4dn.2xlarge, g4dn.12xlarge]
      - key: karpenter.sh/capacity-type
        operator: In
        values: [spot, on-demand]
      - key: kubernetes.io/arch
        operator: In
        values: [amd64]
    taints:
      - key: example.com/gpu-sliced
        effect: NoSchedule
    limits:
      resources:
        cpu: 500
    providerRef:
      name: default
  YAML
}

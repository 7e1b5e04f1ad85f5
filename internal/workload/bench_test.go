package workload

import (
	"fmt"
	"strings"
	"testing"
)

// deployments writes shapes Deployments that want pods pods together.
func deployments(shapes, pods int) string {
	var b strings.Builder
	for i := range shapes {
		n := pods / shapes
		if i < pods%shapes {
			n++
		}
		fmt.Fprintf(&b, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d%d, namespace: team-%d, labels: {app: d%d}}
spec:
  replicas: %d
  selector: {matchLabels: {app: d%d}}
  template:
    metadata: {labels: {app: d%d}}
    spec:
      nodeSelector: {kubernetes.io/arch: amd64}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: d%d}}}
      containers:
      - name: main
        image: registry.example.com/app:v%d
        env: [{name: A, value: b}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        resources: {requests: {cpu: %dm, memory: %dMi}, limits: {nvidia.com/gpu: %d}}
`, i, i%20, i, n, i, i, i, i, 100+i, 256+i, i%4)
	}
	return b.String()
}

// dump writes pods as kubectl get -o yaml does, each in full.
func dump(pods int) string {
	var b strings.Builder
	for i := range pods {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata:
  annotations: {kubernetes.io/config.seen: "2026-01-01T00:00:00Z"}
  creationTimestamp: "2026-01-01T00:00:00Z"
  generateName: web-7d9f8c6b5-
  labels: {app: web, pod-template-hash: 7d9f8c6b5}
  name: web-7d9f8c6b5-%05d
  namespace: team-a
  ownerReferences:
  - {apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: ReplicaSet, name: web-7d9f8c6b5, uid: 0c0ffee0}
  resourceVersion: "%d"
  uid: 7c0ffee0-%d
spec:
  containers:
  - env:
    - {name: PORT, value: "8080"}
    image: registry.example.com/web:v1
    imagePullPolicy: IfNotPresent
    livenessProbe: {failureThreshold: 3, httpGet: {path: /live, port: 8080, scheme: HTTP}, periodSeconds: 10, successThreshold: 1, timeoutSeconds: 1}
    name: web
    ports: [{containerPort: 8080, name: http, protocol: TCP}]
    resources: {limits: {memory: 1Gi, nvidia.com/gpu: "1"}, requests: {cpu: 500m, memory: 1Gi, nvidia.com/gpu: "1"}}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts:
    - {mountPath: /var/run/secrets/kubernetes.io/serviceaccount, name: kube-api-access-abcde, readOnly: true}
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  nodeName: node-%d
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccount: default
  serviceAccountName: default
  terminationGracePeriodSeconds: 30
  tolerations:
  - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
  - {effect: NoExecute, key: node.kubernetes.io/unreachable, operator: Exists, tolerationSeconds: 300}
  - {effect: NoSchedule, key: nvidia.com/gpu, operator: Exists}
  volumes:
  - name: kube-api-access-abcde
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken: {expirationSeconds: 3607, path: token}
      - configMap: {items: [{key: ca.crt, path: ca.crt}], name: kube-root-ca.crt}
      - downwardAPI: {items: [{fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}, path: namespace}]}
status:
  conditions:
  - {lastProbeTime: null, lastTransitionTime: "2026-01-01T00:00:00Z", status: "True", type: Ready}
  phase: Running
  qosClass: Burstable
`, i, i, i, i/100)
	}
	return b.String()
}

// BenchmarkDeployments reads 10,000 replicas of 300 Deployments, without parsing.
func BenchmarkDeployments(b *testing.B) {
	docs := parse(b, deployments(300, 10_000))
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := Read(docs, Options{}); len(r.Pods) != 10_000 {
			b.Fatalf("got %d pods", len(r.Pods))
		}
	}
}

// BenchmarkDump reads 10,000 pods as a cluster gives them, without parsing.
func BenchmarkDump(b *testing.B) {
	docs := parse(b, dump(10_000))
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := Read(docs, Options{}); len(r.Pods) != 10_000 {
			b.Fatalf("got %d pods", len(r.Pods))
		}
	}
}

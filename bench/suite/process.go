package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is kerf as make bench builds it, below the root of the project.
var program = filepath.Join("bin", "kerf")

// A Process is one run of kerf plan from files to the table, as a user runs it.
type Process struct {
	About     string
	Input     int // bytes
	CPU, Wall time.Duration
	MiB       float64 // most memory that the system lent it; 0 = not known
	Absent    string  // why it was not run, "" when it was
}

// inputs are what kerf plan is run on.
var inputs = []struct {
	about string
	write func(io.Writer)
}{
	{"10,000 pods in 300 Deployments", func(w io.Writer) { deployments(w, 300, 10_000) }},
	{"100,000 pods in 300 Deployments", func(w io.Writer) { deployments(w, 300, 100_000) }},
	{"10,000 Pods as kubectl get -o yaml prints them", func(w io.Writer) { dump(w, 10_000) }},
}

// processes runs kerf plan on each input.
func processes(progress io.Writer) ([]Process, error) {
	dir, err := os.MkdirTemp("", "kerf-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for input: %w", err)
	}
	defer os.RemoveAll(dir)
	var out []Process
	for i, in := range inputs {
		var text bytes.Buffer
		in.write(&text)
		name := filepath.Join(dir, fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
			return nil, fmt.Errorf("write input: %w", err)
		}
		p, err := process(name)
		if err != nil {
			return nil, err
		}
		p.About, p.Input = in.about, text.Len()
		fmt.Fprintf(progress, "kerf plan, %s: %s\n", p.About, p)
		out = append(out, p)
	}
	return out, nil
}

func process(input string) (Process, error) {
	c := exec.Command(program, "plan", "-f", input)
	var said bytes.Buffer
	c.Stderr = &said
	start := time.Now()
	err := c.Run()
	p := Process{Wall: time.Since(start)}
	switch exit := (*exec.ExitError)(nil); {
	case errors.Is(err, os.ErrNotExist):
		return Process{Absent: "no " + program + "; make build makes it"}, nil
	case errors.As(err, &exit) && exit.ExitCode() != 2: // 2: not every pod is placed
		return p, fmt.Errorf("kerf plan: %w: %s", err, said.Bytes())
	case err != nil && exit == nil:
		return p, fmt.Errorf("kerf plan: %w", err)
	}
	p.CPU, p.MiB = c.ProcessState.UserTime()+c.ProcessState.SystemTime(), peak(c.ProcessState)
	return p, nil
}

// String gives the figures in a line.
func (p Process) String() string {
	if p.Absent != "" {
		return p.Absent
	}
	return fmt.Sprintf("%.2f CPU-s, %.2f s, %.0f MiB", p.CPU.Seconds(), p.Wall.Seconds(), p.MiB)
}

// deployments writes so many Deployments that want so many pods together, of
// growing size, some without GPUs and some with up to three.
func deployments(w io.Writer, shapes, pods int) {
	for i := range shapes {
		n := pods / shapes
		if i < pods%shapes {
			n++
		}
		fmt.Fprintf(w, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d%d, namespace: team-%d}
spec:
  replicas: %d
  selector: {matchLabels: {app: d%d}}
  template:
    metadata: {labels: {app: d%d}}
    spec:
      containers:
      - name: main
        image: registry.example.com/app:v%d
        resources: {requests: {cpu: %dm, memory: %dMi}, limits: {nvidia.com/gpu: %d}}
`, i, i%20, n, i, i, i, 100+i, 256+i, i%4)
	}
}

// dump writes so many pending pods as kubectl get -o yaml does: one list, every
// default written out.
func dump(w io.Writer, pods int) {
	fmt.Fprint(w, "apiVersion: v1\nitems:\n")
	for i := range pods {
		fmt.Fprint(w, strings.NewReplacer("NUMBER", fmt.Sprintf("%05d", i), "CPU", fmt.Sprint(100+i%300)).Replace(dumped))
	}
	fmt.Fprint(w, "kind: List\nmetadata:\n  resourceVersion: \"\"\n")
}

const dumped = `- apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: "2026-01-01T00:00:00Z"
    generateName: train-7d9f8c6b5-
    labels:
      app: train
      pod-template-hash: 7d9f8c6b5
    name: train-7d9f8c6b5-NUMBER
    namespace: team-a
    ownerReferences:
    - apiVersion: apps/v1
      blockOwnerDeletion: true
      controller: true
      kind: ReplicaSet
      name: train-7d9f8c6b5
      uid: 4be0c8f1-6a7d-4c52-9f0b-3f5d1c9f7a10
    resourceVersion: "NUMBER"
    uid: 0f2d6b3e-9c41-4d8a-8a57-0000000NUMBER
  spec:
    containers:
    - env:
      - name: PORT
        value: "8080"
      - name: POD_NAME
        valueFrom:
          fieldRef:
            apiVersion: v1
            fieldPath: metadata.name
      image: registry.example.com/train:v1
      imagePullPolicy: IfNotPresent
      livenessProbe:
        failureThreshold: 3
        httpGet:
          path: /live
          port: 8080
          scheme: HTTP
        periodSeconds: 10
        successThreshold: 1
        timeoutSeconds: 1
      name: train
      ports:
      - containerPort: 8080
        name: http
        protocol: TCP
      resources:
        limits:
          memory: 1Gi
          nvidia.com/gpu: "1"
        requests:
          cpu: CPUm
          memory: 1Gi
          nvidia.com/gpu: "1"
      terminationMessagePath: /dev/termination-log
      terminationMessagePolicy: File
      volumeMounts:
      - mountPath: /var/run/secrets/kubernetes.io/serviceaccount
        name: kube-api-access-NUMBER
        readOnly: true
    dnsPolicy: ClusterFirst
    enableServiceLinks: true
    preemptionPolicy: PreemptLowerPriority
    priority: 0
    restartPolicy: Always
    schedulerName: default-scheduler
    securityContext: {}
    serviceAccount: default
    serviceAccountName: default
    terminationGracePeriodSeconds: 30
    tolerations:
    - effect: NoExecute
      key: node.kubernetes.io/not-ready
      operator: Exists
      tolerationSeconds: 300
    - effect: NoExecute
      key: node.kubernetes.io/unreachable
      operator: Exists
      tolerationSeconds: 300
    - effect: NoSchedule
      key: nvidia.com/gpu
      operator: Exists
    volumes:
    - name: kube-api-access-NUMBER
      projected:
        defaultMode: 420
        sources:
        - serviceAccountToken:
            expirationSeconds: 3607
            path: token
        - configMap:
            items:
            - key: ca.crt
              path: ca.crt
            name: kube-root-ca.crt
        - downwardAPI:
            items:
            - fieldRef:
                apiVersion: v1
                fieldPath: metadata.namespace
              path: namespace
  status:
    conditions:
    - lastProbeTime: null
      lastTransitionTime: "2026-01-01T00:00:00Z"
      message: '0/3 nodes are available: 3 Insufficient nvidia.com/gpu.'
      reason: Unschedulable
      status: "False"
      type: PodScheduled
    phase: Pending
    qosClass: Burstable
`

package workload

import (
	"github.com/kerfdev/kerf/api/manifest"
	"github.com/kerfdev/kerf/internal/model"
)

// A fate says what becomes of a field of the Kubernetes API.
type fate struct {
	kind fateKind
	why  string // for whoever reads the table, and in the note
}

type fateKind uint8

const (
	modelled   fateKind = iota // it is in the model, or changes what is
	irrelevant                 // it decides nothing about where a pod may run
	noted                      // it does, but is not modelled: a note says so
	refused                    // the API server refuses it at creation
)

// podFields is the fate of every field of a PodSpec. A test holds the table
// against the API type.
var podFields = map[string]fate{
	"volumes":                       {modelled, "claims restrict zones; other volumes are wherever the pod is"},
	"initContainers":                {modelled, "requests, sidecars, host ports"},
	"containers":                    {modelled, "requests, host ports, what the container may see"},
	"ephemeralContainers":           {refused, "they cannot be created with a pod and have no requests"},
	"restartPolicy":                 {irrelevant, "checked for workloads that finish"},
	"terminationGracePeriodSeconds": {irrelevant, "how a pod ends"},
	"activeDeadlineSeconds":         {irrelevant, "how long a pod runs"},
	"dnsPolicy":                     {irrelevant, "names inside the pod"},
	"nodeSelector":                  {modelled, ""},
	"serviceAccountName":            {irrelevant, "what the pod may do, not where"},
	"serviceAccount":                {irrelevant, "old name of serviceAccountName"},
	"automountServiceAccountToken":  {irrelevant, "files inside the pod"},
	"nodeName":                      {modelled, "the pod is bound"},
	"hostNetwork":                   {modelled, "container ports are host ports; one more toleration for daemonsets"},
	"hostPID":                       {irrelevant, "what the pod sees of its node"},
	"hostIPC":                       {irrelevant, "what the pod sees of its node"},
	"shareProcessNamespace":         {irrelevant, "inside the pod"},
	"securityContext":               {irrelevant, "users and groups inside the pod"},
	"imagePullSecrets":              {irrelevant, "how images are fetched"},
	"hostname":                      {irrelevant, "names inside the pod"},
	"subdomain":                     {irrelevant, "names inside the pod"},
	"affinity":                      {modelled, ""},
	"schedulerName":                 {modelled, ""},
	"tolerations":                   {modelled, ""},
	"hostAliases":                   {irrelevant, "names inside the pod"},
	"priorityClassName":             {modelled, ""},
	"priority":                      {modelled, ""},
	"dnsConfig":                     {irrelevant, "names inside the pod"},
	"readinessGates":                {irrelevant, "when a running pod counts as ready"},
	"runtimeClassName":              {modelled, "overhead, node selector and tolerations of the class"},
	"enableServiceLinks":            {irrelevant, "environment inside the pod"},
	"preemptionPolicy":              {irrelevant, "no plan evicts a running pod for another"},
	"overhead":                      {modelled, ""},
	"topologySpreadConstraints":     {modelled, ""},
	"setHostnameAsFQDN":             {irrelevant, "names inside the pod"},
	"evictionResponders":            {irrelevant, "who else acts on an eviction (1.37)"},
	"os":                            {modelled, "the kubelet refuses a pod of another system"},
	"hostUsers":                     {irrelevant, "users inside the pod"},
	"schedulingGates":               {modelled, ""},
	"resourceClaims":                {modelled, "named; a pod that has one is not planned"},
	"resources":                     {modelled, ""},
	"hostnameOverride":              {irrelevant, "names inside the pod"},
	"schedulingGroup":               {noted, "that pods of a group start together or not at all"},
}

// containerFields is the fate of every field of a Container.
var containerFields = map[string]fate{
	"name":                     {modelled, ""},
	"image":                    {modelled, "read by checks"},
	"command":                  {irrelevant, "what runs, not where"},
	"args":                     {irrelevant, "what runs, not where"},
	"workingDir":               {irrelevant, "inside the container"},
	"ports":                    {modelled, "host ports"},
	"envFrom":                  {modelled, "read by checks"},
	"env":                      {modelled, "read by checks"},
	"resources":                {modelled, ""},
	"resizePolicy":             {irrelevant, "how a later resize happens"},
	"restartPolicy":            {modelled, "Always makes an init container a sidecar"},
	"restartPolicyRules":       {irrelevant, "how the container restarts"},
	"volumeMounts":             {irrelevant, "inside the container"},
	"volumeDevices":            {irrelevant, "inside the container"},
	"livenessProbe":            {irrelevant, "whether it runs well"},
	"readinessProbe":           {irrelevant, "whether it runs well"},
	"startupProbe":             {irrelevant, "whether it runs well"},
	"lifecycle":                {irrelevant, "how it starts and ends"},
	"terminationMessagePath":   {irrelevant, "how it ends"},
	"terminationMessagePolicy": {irrelevant, "how it ends"},
	"imagePullPolicy":          {irrelevant, "how images are fetched"},
	"securityContext":          {modelled, "privileged and capabilities; the rest is inside the container"},
	"stdin":                    {irrelevant, "inside the container"},
	"stdinOnce":                {irrelevant, "inside the container"},
	"tty":                      {irrelevant, "inside the container"},
}

// census notes the fields of a pod spec that are set but not modelled.
func (r *reader) census(o *object, base string) {
	spec, ok := o.tree().Find(base)
	if !ok || spec == nil {
		return
	}
	r.fates(o, base, spec, podFields)
	for _, list := range []string{"containers", "initContainers"} {
		containers := spec.Get(list)
		if containers == nil {
			continue
		}
		for _, c := range containers.Items {
			r.fates(o, manifest.Join(base, list), c, containerFields)
		}
	}
}

func (r *reader) fates(o *object, base string, n *manifest.Node, table map[string]fate) {
	if n == nil {
		return
	}
	for _, f := range n.Fields {
		if fate := table[f.Name]; fate.kind == noted && f.Value != nil && f.Value.Kind != manifest.Null {
			r.noteOnce("field "+f.Name, o, model.Warning, "not-modelled", base+"."+f.Name, "it is not modelled: the plan does not see to it "+fate.why, "")
		}
	}
}

package plane

import "path/filepath"

// The components, by the names of their programs.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// Clients of our own components are never held back by their own limits: what
// the lab measures is Kerf.
var unlimited = []string{"--kube-api-qps=2000", "--kube-api-burst=4000"}

// apiServerFlags are the flags of the API server on host:port, with the etcd
// at that URL.
func (p *Plane) apiServerFlags(port, etcdURL string) []string {
	return append([]string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + port,
		"--tls-cert-file=" + p.pki("apiserver.crt"),
		"--tls-private-key-file=" + p.pki("apiserver.key"),
		"--client-ca-file=" + p.pki("ca.crt"),
		"--requestheader-client-ca-file=" + p.pki("ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.pki("front-proxy.crt"),
		"--proxy-client-key-file=" + p.pki("front-proxy.key"),
		"--kubelet-client-certificate=" + p.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + p.pki("kubelet-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.pki("sa.pub"),
		"--service-account-signing-key-file=" + p.pki("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none", // nothing in the lab reaches the API server through its Service
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true", // device plugins ask for it
		"--enable-admission-plugins=NodeRestriction,ExtendedResourceToleration",
	}, p.config.APIServerFlags...)
}

func (p *Plane) controllerManagerFlags() []string {
	flags := append(p.clientFlags("controller-manager"),
		"--service-account-private-key-file="+p.pki("sa.key"),
		"--root-ca-file="+p.pki("ca.crt"),
		"--cluster-signing-cert-file="+p.pki("ca.crt"),
		"--cluster-signing-key-file="+p.pki("ca.key"),
		"--use-service-account-credentials=true",
	)
	return append(flags, p.config.ControllerManagerFlags...)
}

func (p *Plane) schedulerFlags() []string {
	return append(p.clientFlags("scheduler"), p.config.SchedulerFlags...)
}

// clientFlags are those of a single instance that serves nothing itself.
func (p *Plane) clientFlags(user string) []string {
	return append([]string{
		"--kubeconfig=" + p.path(user+".kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
	}, unlimited...)
}

func (p *Plane) path(name string) string { return filepath.Join(p.config.Dir, name) }

func (p *Plane) pki(name string) string { return filepath.Join(p.config.Dir, "pki", name) }

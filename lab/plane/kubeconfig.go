package plane

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfigs writes one for each client, and keeps the administrator's.
// They are written at every start, as the port may have changed.
func (p *Plane) writeKubeconfigs(server string) error {
	for user, file := range map[string]string{
		"admin":              p.Kubeconfig(),
		"controller-manager": p.path("controller-manager.kubeconfig"),
		"scheduler":          p.path("scheduler.kubeconfig"),
	} {
		if err := p.writeKubeconfig(file, server, user); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
	}
	admin, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading back %s: %w", p.Kubeconfig(), err)
	}
	admin.QPS = -1
	p.admin = admin
	return nil
}

// writeKubeconfig writes a file that holds the certificates themselves, so that
// it can be copied elsewhere.
func (p *Plane) writeKubeconfig(file, server, user string) error {
	const name = "kerf-lab"
	ca, err := os.ReadFile(p.pki("ca.crt"))
	if err != nil {
		return err
	}
	crt, err := os.ReadFile(p.pki(user + ".crt"))
	if err != nil {
		return err
	}
	key, err := os.ReadFile(p.pki(user + ".key"))
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: crt, ClientKeyData: key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, file)
}

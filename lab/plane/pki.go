package plane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates live as long as anybody keeps a folder of the lab.
const certificateYears = 10

// The certificates of the control plane, by file name without its ending.
var certificates = map[string]x509.Certificate{
	"apiserver": {
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 96, 0, 1)},
	},
	"kubelet-client":     {Subject: pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}}},
	"front-proxy":        {Subject: pkix.Name{CommonName: "front-proxy-client"}},
	"controller-manager": {Subject: pkix.Name{CommonName: "system:kube-controller-manager"}},
	"scheduler":          {Subject: pkix.Name{CommonName: "system:kube-scheduler"}},
	"admin":              {Subject: pkix.Name{CommonName: "kerf-lab", Organization: []string{"system:masters"}}},
}

// An authority signs the certificates of one folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// writePKI makes the authority, all certificates and the key of service-account
// tokens in dir, unless an earlier start has: objects of that time keep their
// credentials.
func writePKI(dir string) error {
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for earlier certificates: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of certificates: %w", err)
	}
	ca, err := newAuthority(dir)
	if err != nil {
		return err
	}
	for name, template := range certificates {
		if err := ca.issue(name, template); err != nil {
			return err
		}
	}
	if err := writeServiceAccountKey(dir); err != nil {
		return err
	}
	return os.WriteFile(complete, nil, 0o600)
}

// newAuthority makes ca.crt and ca.key.
func newAuthority(dir string) (*authority, error) {
	key, err := writeKey(filepath.Join(dir, "ca.key"))
	if err != nil {
		return nil, err
	}
	template := x509.Certificate{
		Subject:               pkix.Name{CommonName: "kerf-lab-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	ca := &authority{dir: dir, cert: &template, key: key}
	if err := ca.sign(&template, key.Public(), "ca.crt"); err != nil {
		return nil, err
	}
	return ca, nil
}

// issue makes name.crt and name.key, good for servers and clients.
func (a *authority) issue(name string, template x509.Certificate) error {
	key, err := writeKey(filepath.Join(a.dir, name+".key"))
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	return a.sign(&template, key.Public(), name+".crt")
}

// sign completes the template, signs it and writes it to a file.
func (a *authority) sign(template *x509.Certificate, public crypto.PublicKey, file string) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("choosing a serial number for %s: %w", file, err)
	}
	now := time.Now()
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.AddDate(certificateYears, 0, 0)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return fmt.Errorf("signing %s: %w", file, err)
	}
	return writePEM(filepath.Join(a.dir, file), "CERTIFICATE", der)
}

// writeServiceAccountKey makes sa.key and sa.pub.
func writeServiceAccountKey(dir string) error {
	key, err := writeKey(filepath.Join(dir, "sa.key"))
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding the key of service accounts: %w", err)
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", der)
}

func writeKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", file, err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", file, err)
	}
	return key, writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

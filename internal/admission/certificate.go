package admission

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// How long authorities and serving certificates last. Both are renewed when a
// third of it is left.
const (
	authorityLife   = 365 * 24 * time.Hour
	certificateLife = 30 * 24 * time.Hour
	// skew is how much earlier a certificate starts than it is made, for API
	// servers whose clocks are behind.
	skew = 5 * time.Minute
)

// keys are the guard's: an authority, the certificate that it signed, and, while
// authorities change, the one to come and the one that was. All are PEM.
type keys struct {
	authority, authorityKey     []byte
	certificate, certificateKey []byte
	next, nextKey               []byte
	old                         []byte
}

// The names of keys in a Secret.
var parts = []struct {
	name string
	of   func(*keys) *[]byte
}{
	{"ca.crt", func(k *keys) *[]byte { return &k.authority }},
	{"ca.key", func(k *keys) *[]byte { return &k.authorityKey }},
	{"tls.crt", func(k *keys) *[]byte { return &k.certificate }},
	{"tls.key", func(k *keys) *[]byte { return &k.certificateKey }},
	{"next-ca.crt", func(k *keys) *[]byte { return &k.next }},
	{"next-ca.key", func(k *keys) *[]byte { return &k.nextKey }},
	{"old-ca.crt", func(k *keys) *[]byte { return &k.old }},
}

func keysFrom(data map[string][]byte) keys {
	var k keys
	for _, p := range parts {
		*p.of(&k) = data[p.name]
	}
	return k
}

func (k *keys) data() map[string][]byte {
	out := map[string][]byte{}
	for _, p := range parts {
		if text := *p.of(k); len(text) > 0 {
			out[p.name] = text
		}
	}
	return out
}

// bundle is what the API server is to trust: the authority, the one to come and
// the one that was.
func (k *keys) bundle() []byte {
	return slices.Concat(k.authority, k.next, k.old)
}

func (k *keys) pair() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(k.certificate, k.certificateKey)
	if err != nil {
		return nil, fmt.Errorf("serving certificate: %w", err)
	}
	return &pair, nil
}

// renewed returns the keys as they should be at a time. An authority that comes
// to its end is followed by one that is published at once and signs nothing for
// as long as settle, the time that API servers and other replicas may take to
// learn of it. What cannot be read, or has ended, is made anew.
func (k keys) renewed(now time.Time, hosts []string, settle time.Duration) (keys, error) {
	authority, err := parse(k.authority)
	if err != nil || !now.Before(authority.NotAfter) || !matches(k.authority, k.authorityKey) {
		return fresh(now, hosts)
	}
	if old, err := parse(k.old); err != nil || !now.Before(old.NotAfter) {
		k.old = nil
	}
	if next, err := parse(k.next); err == nil && matches(k.next, k.nextKey) {
		if now.Sub(next.NotBefore) >= settle+skew {
			k.old, k.authority, k.authorityKey, k.next, k.nextKey = k.authority, k.next, k.nextKey, nil, nil
			return k.signed(now, hosts)
		}
	} else if due(authority, now) {
		if k.next, k.nextKey, err = newAuthority(now); err != nil {
			return keys{}, err
		}
	}
	if k.serves(now, hosts) {
		return k, nil
	}
	return k.signed(now, hosts)
}

// serves reports whether the serving certificate is good for a while.
func (k *keys) serves(now time.Time, hosts []string) bool {
	c, err := parse(k.certificate)
	if err != nil || due(c, now) || !matches(k.certificate, k.certificateKey) {
		return false
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(k.bundle())
	for _, host := range hosts {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

// due reports whether less than a third of a certificate's life is left.
func due(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3
}

func fresh(now time.Time, hosts []string) (keys, error) {
	var k keys
	var err error
	if k.authority, k.authorityKey, err = newAuthority(now); err != nil {
		return keys{}, err
	}
	return k.signed(now, hosts)
}

func newAuthority(now time.Time) (cert, key []byte, err error) {
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kerf guard"}, NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, now, nil)
}

// signed returns the keys with a new serving certificate.
func (k keys) signed(now time.Time, hosts []string) (keys, error) {
	signer, err := tls.X509KeyPair(k.authority, k.authorityKey)
	if err != nil {
		return keys{}, fmt.Errorf("authority: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: hosts[0]}, NotAfter: now.Add(certificateLife), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	k.certificate, k.certificateKey, err = sign(template, now, &signer)
	return k, err
}

// sign makes a key and its certificate, signed by itself when there is no signer.
func sign(template *x509.Certificate, now time.Time, signer *tls.Certificate) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	template.NotBefore = now.Add(-skew)
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("make a serial number: %w", err)
	}
	parent, by := template, any(private)
	if signer != nil {
		parent, by = signer.Leaf, signer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), by)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("write a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}), nil
}

var errNoCertificate = errors.New("no certificate in PEM")

func parse(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(bytes.TrimSpace(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errNoCertificate
	}
	return x509.ParseCertificate(block.Bytes)
}

// matches reports whether a certificate and a key belong together.
func matches(cert, key []byte) bool {
	_, err := tls.X509KeyPair(cert, key)
	return err == nil
}

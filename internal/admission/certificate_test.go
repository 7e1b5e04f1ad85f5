package admission

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"
)

var hosts = []string{"kerf-controller.kerf-system.svc", "127.0.0.1"}

const settle = 10 * time.Minute

// trusted reports whether an API server that knows a bundle accepts a certificate.
func trusted(t *testing.T, bundle, certificate []byte, now time.Time) bool {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	c, err := parse(certificate)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		if _, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: now}); err != nil {
			return false
		}
	}
	return true
}

// Over three years of days, an API server that learns of a bundle nine minutes
// late accepts every certificate that is served.
func TestCertificatesChangeWithoutAGap(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	k, err := keys{}.renewed(now, hosts, settle)
	if err != nil {
		t.Fatal(err)
	}
	known, authorities, certificates := k.bundle(), 1, 1
	for end := now.AddDate(3, 0, 0); now.Before(end); {
		// A change is looked at closely, the days between them are not.
		step := 24 * time.Hour
		if len(k.next) > 0 {
			step = 9 * time.Minute
		}
		now = now.Add(step)
		before := k
		if k, err = k.renewed(now, hosts, settle); err != nil {
			t.Fatal(err)
		}
		if !trusted(t, known, k.certificate, now) {
			t.Fatalf("%s: what is served is not what the API server knows", now)
		}
		known = k.bundle()
		if !bytes.Equal(before.authority, k.authority) {
			authorities++
		}
		if !bytes.Equal(before.certificate, k.certificate) {
			certificates++
		}
	}
	if authorities < 3 || authorities > 6 || certificates < 36 {
		t.Errorf("%d authorities and %d certificates in three years", authorities, certificates)
	}
}

func TestKeysThatCannotBeUsedAreMadeAnew(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, err := keys{}.renewed(now, hosts, settle)
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*keys){
		"no key of the authority":       func(k *keys) { k.authorityKey = nil },
		"the authority is no PEM":       func(k *keys) { k.authority = []byte("x") },
		"another's key":                 func(k *keys) { k.certificateKey = k.authorityKey },
		"no certificate":                func(k *keys) { k.certificate = nil },
		"an authority to come, damaged": func(k *keys) { k.next = []byte("x") },
	} {
		t.Run(name, func(t *testing.T) {
			k := good
			damage(&k)
			k, err := k.renewed(now, hosts, settle)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.pair(); err != nil || !trusted(t, k.bundle(), k.certificate, now) {
				t.Errorf("what is served cannot be used: %v", err)
			}
		})
	}
	again, err := good.renewed(now.Add(time.Hour), hosts, settle)
	if err != nil || !bytes.Equal(again.certificate, good.certificate) {
		t.Errorf("a certificate that is good was changed, %v", err)
	}
	moved, err := good.renewed(now, []string{"elsewhere.svc"}, settle)
	if err != nil || bytes.Equal(moved.certificate, good.certificate) || !bytes.Equal(moved.authority, good.authority) {
		t.Errorf("another name needs another certificate of the same authority, %v", err)
	}
	late, err := good.renewed(now.AddDate(3, 0, 0), hosts, settle)
	if err != nil || !trusted(t, late.bundle(), late.certificate, now.AddDate(3, 0, 0)) {
		t.Errorf("after years without a guard: %v", err)
	}
}

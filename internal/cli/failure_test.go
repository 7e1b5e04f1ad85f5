package cli

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"plan", "lint", "migrate", "instance-types", "version"}
	for word, want := range map[string]string{
		"pln": "plan", "Plan": "plan", "lnit": "lint", "migrat": "migrate", "instance-type": "instance-types", "x": "", "status": "", "": "",
	} {
		if got := nearest(word, names); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestWantsJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want bool
	}{
		"two words":      {[]string{"plan", "-o", "json"}, true},
		"one word":       {[]string{"plan", "-ojson"}, true},
		"long":           {[]string{"plan", "--output", "json"}, true},
		"with equals":    {[]string{"plan", "--output=json"}, true},
		"another format": {[]string{"plan", "-o", "yaml"}, false},
		"none":           {[]string{"plan", "-o"}, false},
	} {
		if got := wantsJSON(tt.args); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestLocale(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"LANG alone":        {map[string]string{"LANG": "de_DE.UTF-8"}, true},
		"LC_ALL wins":       {map[string]string{"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, false},
		"another spelling":  {map[string]string{"LC_CTYPE": "C.utf8"}, true},
		"nothing is no one": {nil, false},
	} {
		a := &app{Streams: Streams{Getenv: func(k string) string { return tt.env[k] }}}
		if got := a.utf8(); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

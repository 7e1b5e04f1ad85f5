package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder writes files and returns their folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestReadTakesFoldersInOrder(t *testing.T) {
	root := folder(t, map[string]string{
		"b.yml": "b", "a/z.YAML": "z", "a/y.json": "y", "c.tf": "c", "d.tf.json": "d",
		".git/x.yaml": "x", "node_modules/x.yaml": "x", "a/readme.md": "x", "a/data.csv": "x", ".hidden.yaml": "hidden files are files",
	})
	files, err := Read([]string{root, filepath.Join(root, "b.yml")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		rel, _ := filepath.Rel(root, f.Name)
		got = append(got, filepath.ToSlash(rel)+"="+string(f.Data))
	}
	want := []string{".hidden.yaml=hidden files are files", "a/y.json=y", "a/z.YAML=z", "b.yml=b", "c.tf=c", "d.tf.json=d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestReadFollowsLinksToFilesOnly(t *testing.T) {
	root := folder(t, map[string]string{"..data/config.yaml": "kept by the kubelet", "sub/a.yaml": "a"})
	for link, to := range map[string]string{"config.yaml": "..data/config.yaml", "loop": ".", "dead.yaml": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Skip("links cannot be made here")
		}
	}
	files, err := Read([]string{root}, nil)
	if err != nil || len(files) != 2 {
		t.Errorf("%d files, %v, want config.yaml and sub/a.yaml", len(files), err)
	}
}

func TestReadTakesStandardInput(t *testing.T) {
	files, err := Read([]string{"-"}, strings.NewReader("x"))
	if diff := cmp.Diff([]File{{"-", []byte("x")}}, files); diff != "" || err != nil {
		t.Errorf("files (-want +got):\n%s%v", diff, err)
	}
}

func TestReadRefusesWhatItCannotUse(t *testing.T) {
	root := folder(t, map[string]string{"notes.txt": "x", "empty/x.md": ""})
	tests := map[string]struct{ path, want string }{
		"a path that is not there":  {filepath.Join(root, "no"), "no: no such file or folder"},
		"a named file of no use":    {filepath.Join(root, "notes.txt"), "notes.txt: kerf reads .yaml, .yml, .json, .tf and .tf.json files"},
		"a folder without manifest": {filepath.Join(root, "empty"), "empty: the folder holds no manifest; kerf reads .yaml, .yml, .json, .tf and .tf.json files"},
		"no standard input":         {"-", "read standard input: there is none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]string{tt.path}, nil)
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("error %v, want ... %s", err, tt.want)
			}
		})
	}
	_, err := Read([]string{"-"}, failing{})
	if err == nil || err.Error() != "read standard input: the pipe broke" {
		t.Errorf("error %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the pipe broke") }

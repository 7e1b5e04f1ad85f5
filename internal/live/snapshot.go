package live

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"time"

	"sigs.k8s.io/yaml"
)

const snapshotHead = `# A cluster as Kerf reads it, written by kerf snapshot. Left out: Secrets, ConfigMaps
# that are no device config, command lines, user data, and values of environment variables
# but those that say which GPUs a container sees.
# Every command takes it in place of the cluster: kerf plan -f FILE
apiVersion: v1
kind: List
items:
`

// WriteSnapshot writes the objects as one YAML list, from which the cluster
// can be planned again.
func WriteSnapshot(w io.Writer, o Objects) error {
	out := bufio.NewWriter(w)
	head := snapshotHead
	if !o.Taken.IsZero() {
		head += "- apiVersion: kerf.dev/v1alpha1\n  kind: ClusterSnapshot\n  metadata: {name: taken}\n  taken: \"" + o.Taken.UTC().Format(time.RFC3339) + "\"\n"
	}
	if _, err := out.WriteString(head); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	for _, object := range o.List {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("write %s: %w", Document(object).Title(), err)
		}
		head := "- "
		for line := range bytes.Lines(text) {
			if _, err := out.WriteString(head + string(line)); err != nil {
				return fmt.Errorf("write the snapshot: %w", err)
			}
			head = "  "
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

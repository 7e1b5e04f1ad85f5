package intake

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kerfdev/kerf/internal/source"
)

// BenchmarkLoad reads 10,000 pods, as single objects and as Deployments.
func BenchmarkLoad(b *testing.B) {
	var pods, deployments strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&pods, "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p%d\n  namespace: team\n  labels:\n    app: a%d\nspec:\n  restartPolicy: Never\n  nodeSelector:\n    kubernetes.io/arch: amd64\n"+
			"  containers:\n  - name: main\n    image: registry.example.com/train:v%d\n    args: [\"--epochs\", \"10\"]\n    resources:\n      requests:\n        cpu: %dm\n        memory: 1Gi\n      limits:\n        nvidia.com/gpu: 1\n", i, i%300, i%300, 100+i%300)
	}
	for i := range 300 {
		deployments.WriteString("---\n" + strings.Replace(replicas(fmt.Sprintf("w%d", i), 33), "500m", fmt.Sprintf("%dm", 100+i), 1))
	}
	for name, text := range map[string]string{"pods": pods.String(), "deployments": deployments.String()} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				l, err := Load([]source.File{{Name: "f.yaml", Data: []byte(text)}}, Options{})
				if err != nil || len(l.Snapshot.Pods) < 9_900 {
					b.Fatal(err, len(l.Snapshot.Pods))
				}
			}
		})
	}
}

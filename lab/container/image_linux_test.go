package container

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// The names of the images. One stands for the image of NVIDIA's that the seeds
// use, which has a driver's tools in it.
const (
	pauseImage = "docker.io/kerf/pause:1"
	cudaImage  = "docker.io/nvidia/cuda:12.6.3-base-ubuntu24.04"
)

// nvidiaSMI takes the place of the program of that name: it says what the
// container is told of GPUs, which device nodes it has, and which of the
// machine's device numbers the kernel lets it open, device node or not.
const nvidiaSMI = `#!/bin/sh
echo "told $NVIDIA_VISIBLE_DEVICES"
for node in /dev/nvidia*; do
  test -e "$node" && echo "has $node"
done
for minor in 0 1 255; do
  mknod /tmp/$minor c 60 $minor || exit
  case "$(cat /tmp/$minor 2>&1)" in
    *"No such device or address") echo "may open $minor" ;; # the kernel has no driver for it
    *"Operation not permitted") ;;
    *) echo "cannot tell of $minor"; cat /tmp/$minor ;;
  esac
done
`

// writeImages writes an archive in OCI's layout (image-spec 1.1) that containerd
// imports without a registry: one image of busybox under both names.
func writeImages(path, busybox string) error {
	layer, err := layerOf(busybox)
	if err != nil {
		return err
	}
	files := []file{{Header: tar.Header{Name: "oci-layout", Mode: 0o644}, data: []byte(`{"imageLayoutVersion": "1.0.0"}`)}}
	blob := func(kind string, data []byte) map[string]any {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		files = append(files, file{Header: tar.Header{Name: "blobs/sha256/" + sum, Mode: 0o644}, data: data})
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + sum, "size": len(data)}
	}
	layerBlob := blob("layer.v1.tar", layer)
	config := blob("config.v1+json", asJSON(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/bin/sleep", "1000000"}, "Env": []string{"PATH=/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{layerBlob["digest"]}},
	}))
	var manifests []any
	for _, name := range []string{pauseImage, cudaImage} {
		manifest := blob("manifest.v1+json", asJSON(map[string]any{
			"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []any{layerBlob},
			"annotations": map[string]string{"org.opencontainers.image.title": name}, // so that no two blobs are alike
		}))
		manifest["annotations"] = map[string]string{"io.containerd.image.name": name}
		manifests = append(manifests, manifest)
	}
	index := asJSON(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests})
	files = append(files, file{Header: tar.Header{Name: "index.json", Mode: 0o644}, data: index})
	image, err := archive(files)
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

// layerOf is a file system of busybox and nvidia-smi.
func layerOf(busybox string) ([]byte, error) {
	program, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, dir := range []string{"bin/", "dev/", "etc/", "proc/", "sys/", "tmp/"} {
		files = append(files, file{Header: tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}})
	}
	for _, name := range []string{"sh", "cat", "mknod", "sleep"} {
		files = append(files, file{Header: tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}})
	}
	return archive(append(files,
		file{Header: tar.Header{Name: "bin/busybox", Mode: 0o755}, data: program},
		file{Header: tar.Header{Name: "bin/nvidia-smi", Mode: 0o755}, data: []byte(nvidiaSMI)},
	))
}

// A file is an entry of a tar archive.
type file struct {
	tar.Header
	data []byte
}

func archive(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		f.Size = int64(len(f.data))
		if err := w.WriteHeader(&f.Header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

func asJSON(v map[string]any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // of strings and numbers only
	}
	return data
}

#!/bin/sh
# What the node agent does on a machine with NVIDIA GPUs: reads its inventory,
# says what it would advertise, serves it to a fake kubelet, hands a device out,
# and checks that the CDI spec resolves and that the GPUs answer. Needs the
# driver and root; changes nothing but files in the output folder.
set -eu
node=${1:-bin/kerf-node}
out=${2:-out/gpu}
root=${DRIVER_ROOT_CTR_PATH:-/}
mkdir -p "$out"

step() { printf '\n%s\n' "== $*"; }

if ! "$node" inventory --driver-root-ctr-path "$root" >"$out/inventory.yaml" 2>"$out/error"; then
  echo "make gpu: no GPU to be had here:"
  cat "$out/error"
  exit 1
fi

step "inventory ($out/inventory.yaml)"
cat "$out/inventory.yaml"

step "what the node would advertise"
cat >"$out/shared.yaml" <<'YAML'
version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
YAML
"$node" config check "$out/shared.yaml" --inventory "$out/inventory.yaml"
"$node" config check "$out/shared.yaml" --driver-root-ctr-path "$root" -o json >"$out/live.json"
"$node" config check "$out/shared.yaml" --inventory "$out/inventory.yaml" -o json >"$out/recorded.json"
cmp "$out/live.json" "$out/recorded.json"
echo "the recorded inventory gives the same as the machine"

step "labels"
"$node" labels --driver-root-ctr-path "$root" --config "$out/shared.yaml"

step "serve to a fake kubelet, Allocate, CDI, health"
DRIVER_ROOT_CTR_PATH=$root CGO_ENABLED=1 ${GO:-go} test -tags gpu -count=1 -run TestOnThisMachine -v ./internal/node

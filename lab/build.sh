#!/bin/sh
# Prints the path of kerf-lab, which it builds first unless that was done before.
#
# It links in all of Kubernetes: about 1,000 CPU seconds from nothing. So the
# program is kept outside the tree, under a key of all that goes into it, and
# every build of the lab uses one set of flags; with others, Go would compile
# everything again. Where KUBEBUILDER_ASSETS names a folder of programs, these
# are run instead, and nothing of Kubernetes is linked in.
set -eu
cd "$(dirname "$0")"
export GOTOOLCHAIN="${GOTOOLCHAIN:-go1.27.3}" GOFLAGS=-trimpath CGO_ENABLED=0
go=${GO:-go}
keep=3 # builds in the cache

say() { echo "$@" >&2; }

tags=
if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
  tags=prebuilt
  missing=
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    [ -x "$KUBEBUILDER_ASSETS/$program" ] || missing="$missing $program"
  done
  if [ -n "$missing" ]; then
    say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no$missing; put them there, or unset it to build them in"
    exit 1
  fi
fi

# The files of this repository that are linked in.
sources() {
  $go list -deps -tags "$tags" -f '{{with .Module}}{{if or .Main (eq .Path "github.com/kerfdev/kerf")}}{{range $.GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range $.EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}{{end}}' ./cmd/kerf-lab | grep . | LC_ALL=C sort
}

files=$(sources)
key=$({
  $go env GOVERSION GOOS GOARCH GOAMD64 GOARM64
  echo "$tags"
  { echo "$files"; echo go.mod; echo go.sum; echo build.sh; } | tr '\n' '\0' | xargs -0 cat
} | sha256sum | cut -c 1-16)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kerf/lab
program=$cache/$key/kerf-lab
if [ -x "$program" ]; then
  touch "$cache/$key"
  echo "$program"
  exit
fi

# Go names each package once it is compiled; anything else that it says is shown.
progress() {
  awk -v total="$1" -v terminal="$2" '
    /^[^ #]+$/ {
      done++
      if (terminal) printf "\r%d of %d packages  %s\033[K", done, total, $0
      else if (done % 100 == 0) printf "%d of %d packages\n", done, total
      fflush()
      next
    }
    { print; fflush() }
    END { if (terminal) printf "\r\033[K" }' >&2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
total=$($go list -deps -tags "$tags" -f '{{if .Stale}}stale{{end}}' ./cmd/kerf-lab | grep -c stale || true)
say "building kerf-lab: packages to compile: $total; from nothing this takes about 10 minutes on 2 idle cores, and is done once"
terminal=
[ ! -t 2 ] || terminal=1
{
  status=0
  $go build -v -tags "$tags" -ldflags '-s -w' -o "$work/kerf-lab" ./cmd/kerf-lab 2>&1 || status=$?
  echo "$status" >"$work/status"
} | progress "$total" "$terminal"
[ "$(cat "$work/status")" = 0 ] || exit 1

mkdir -p "$cache/$key"
mv "$work/kerf-lab" "$program"
# The newest builds are kept, for going back and forth between branches.
ls -t "$cache" | tail -n +$((keep + 1)) | while read -r old; do rm -rf "${cache:?}/$old"; done
echo "$program"

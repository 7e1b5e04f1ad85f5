#!/bin/sh
# Plans every example with the given kerf binary, then a fleet of 8,152 pods,
# and leaves its picture in the given folder. Exit 2 of kerf plan means that
# some pod was refused with a reason, which two examples show on purpose.
#
# Meanwhile the lab is built, which takes about ten minutes on 2 cores the first
# time; then it shows the same live, on a real control plane.
set -eu
kerf=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"

rm -f "$out/lab.built"
{
  built=0
  sh "$here/../lab/build.sh" >"$out/lab.path" 2>"$out/lab.log" || built=$?
  echo "$built" >"$out/lab.built"
} &
trap 'echo; echo "the build of the lab goes on by itself; it is done once"; exit 130' INT TERM

plan() {
  code=0
  "$kerf" plan "$@" || code=$?
  test "$code" -eq 0 || test "$code" -eq 2
}

for example in argo-cd ack time-slicing mig; do
  echo
  echo "$ kerf plan -f examples/$example"
  plan -f "$here/$example"
done

echo
echo "$ kerf plan -f examples/openb"
plan -f "$here/openb"
plan -f "$here/openb" -o html >"$out/openb.html"
plan -f "$here/time-slicing" -o html >"$out/time-slicing.html"
echo
echo "pictures of the fleets: $out/time-slicing.html $out/openb.html"

echo
echo "the same live: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kerf-controller and a simulated cloud"
said=
while [ ! -f "$out/lab.built" ]; do
  now=$(tail -n 1 "$out/lab.log" 2>/dev/null || true)
  if [ "$now" != "$said" ]; then
    echo "  building the lab: $now"
    said=$now
  fi
  sleep 1
done
trap - INT TERM
if [ "$(cat "$out/lab.built")" != 0 ]; then
  cat "$out/lab.log" >&2
  exit 1
fi
exec "$(cat "$out/lab.path")" demo

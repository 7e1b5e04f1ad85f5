#!/bin/sh
# Plans every example with the given kerf binary, then a fleet of 8,152 pods,
# and leaves its picture in the given folder. Exit 2 of kerf plan means that
# some pod was refused with a reason, which two examples show on purpose.
set -eu
kerf=$1
out=$2
here=$(dirname "$0")
mkdir -p "$out"

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

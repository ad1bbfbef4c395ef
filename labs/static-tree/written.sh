#!/bin/sh
# Waits until the page is written to the static tree. Argument: the output directory.
set -eu
for _ in $(seq 200); do
    set -- "$1" "$1"/tree/http_127.0.0.1_*/index
    [ -e "$2" ] && exit 0
    set -- "$1"
    sleep 0.05
done
echo "the page was not written to $1/tree" >&2
exit 1

#!/bin/sh
# Petasos for the ladder beside this file, with a static tree in the layout of TYPO3's static file cache.
#
# Arguments: the petasos binary, the output directory, then its own address, that of its admin interface, that of the
# shop, and the address at which visitors reach Apache: without `host`, a page of its port would have no file.
set -eu
petasos=$1 out=$(realpath "$2") listen=$3 admin=$4 origin=$5 public=$6
cat >"$out/petasos.toml" <<SETTINGS
names = ["127.0.0.1"]
host = "$public"

[static_tree]
directory = "$out/tree"
layout = "typo3"
SETTINGS
exec "$petasos" serve "$out/petasos.toml" --origin "http://$origin" --listen "$listen" --admin "$admin"

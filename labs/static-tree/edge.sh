#!/bin/sh
# Petasos for the ladder in this directory, with a static tree in the layout of TYPO3's static file
# cache.
#
# Arguments: the petasos binary, the output directory, Petasos' own address, the address of its
# admin interface, the shop's address, and Apache's address for visitors. `host` is Apache's
# address, because the tree would otherwise have no file for pages with its port.
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

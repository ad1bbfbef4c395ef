#!/bin/sh
# Removes the stack. Its configuration files are gone, and the programs $1 still run.
set -eu
cd /root/petasos
sh contrib/mercury/remove.sh >/root/remove.log 2>&1 || {
    tail -n 20 /root/remove.log
    exit 1
}
test -z "$(find /etc -name '*mercury*')"
test ! -e /usr/bin/petasos
test ! -e /root/ladder.toml
test -z "$(systemctl list-units --plain --no-legend 'mercury*')"
for program in $1; do
    systemctl is-active "$program"
done

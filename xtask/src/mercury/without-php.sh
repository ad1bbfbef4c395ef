#!/bin/sh
# The root has the packages of all stacks. A machine with this one has no PHP.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get purge --yes --quiet wordpress mediawiki 'php*' >/root/purge.log 2>&1 || {
    tail -n 20 /root/purge.log
    exit 1
}
test ! -e /usr/bin/php8.2

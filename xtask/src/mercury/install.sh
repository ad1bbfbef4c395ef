#!/bin/sh
# Runs the script of the stack $1, with a certificate of this system in place of an authority and, if
# there is one, a directory of wheels in place of a network.
set -eu
cd /root/petasos
test -e /root/site-password && cp /root/site-password /root/password.before
wheels=
if [ -e /root/wheels ]; then
    wheels=/root/wheels
fi
sh contrib/mercury/install.sh "$1" www.example.org /root/petasos.deb \
    /etc/petasos/site.pem,/etc/petasos/site.key $wheels >/root/install.log 2>&1 || {
    tail -n 40 /root/install.log
    exit 1
}
tail -n 1 /root/install.log
test -s /root/site-password
# A second run changes no password.
if [ -e /root/password.before ]; then
    cmp /root/site-password /root/password.before
fi

#!/bin/sh
# A certificate for www.example.org that this system trusts, and the name itself.
set -eu
printf '127.0.0.1 localhost www.example.org %s\n' "$(hostname)" >/etc/hosts
cd /root
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=www.example.org \
    -addext subjectAltName=DNS:www.example.org -keyout site.key -out site.pem 2>/dev/null
install -m 644 site.pem /usr/local/share/ca-certificates/site.crt
update-ca-certificates >/dev/null 2>&1
# The account of the service does not exist before the package is installed.
install -d -m 755 /etc/petasos
install -m 644 site.pem /etc/petasos/site.pem
install -m 644 site.key /etc/petasos/site.key

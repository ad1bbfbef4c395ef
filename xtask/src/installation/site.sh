#!/bin/sh
# Puts Petasos in front of WordPress, with a certificate from the authority pebble, which runs in
# the same root and visits the name at port 80.
set -eu

cd /root
cat >pebble.json <<'END'
{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000",
  "certificate": "/root/pebble.pem", "privateKey": "/root/pebble.key", "httpPort": 80, "tlsPort": 443,
  "profiles": {"default": {"description": "a profile", "validityPeriod": 7776000}}}}
END
systemd-run --quiet --unit=pebble --setenv=PEBBLE_VA_NOSLEEP=1 \
    /root/pebble -config /root/pebble.json

cat >/etc/petasos/petasos.toml <<'END'
tls = ["wordpress.test"]
acme_directory = "https://127.0.0.1:14000/dir"
acme_ca_file = "/srv/acme-ca.pem"
origin = "http://127.0.0.1:8000"
names = ["wordpress.test"]
profile = "wordpress"
disk = "/var/cache/petasos"
disk_size = "1GiB"
state_directory = "/var/lib/petasos"
access_log = "/var/log/petasos/access.log"
END
petasos check /etc/petasos/petasos.toml
systemctl restart petasos

tries=0
until curl --silent --insecure https://127.0.0.1:15000/roots/0 >/root/root.pem &&
    curl --silent --fail --cacert /root/root.pem --output /dev/null https://wordpress.test/; do
    tries=$((tries + 1))
    if [ "$tries" -gt 150 ]; then
        journalctl --unit=petasos --no-pager | tail -n 20
        exit 1
    fi
    sleep 0.2
done
curl --silent --fail --cacert /root/root.pem --output /dev/null --dump-header - https://wordpress.test/ |
    grep -i '^cache-status: Petasos; hit'

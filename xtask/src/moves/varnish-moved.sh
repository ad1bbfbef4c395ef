#!/bin/sh
# Petasos answers at both ports and obeys purges; Varnish and Hitch are off, also after a boot.
set -eu

headers() {
    curl --silent --fail --output /dev/null --dump-header - "$@"
}

headers https://www.example.org/ >/dev/null
headers https://www.example.org/ | grep -i '^cache-status: Petasos; hit'
headers http://www.example.org/ | grep '^HTTP/1.1 308'
curl --silent --fail --request PURGE http://www.example.org/
headers https://www.example.org/ | grep -i '^cache-status: Petasos; fwd'
for old in varnish hitch; do
    test "$(systemctl is-active $old)" != active
    test "$(systemctl is-enabled $old)" = disabled
done
test "$(systemctl is-enabled petasos)" = enabled

#!/bin/sh
# Petasos answers at both ports, and nginx behind it, without its cache.
set -eu

headers() {
    curl --silent --fail --output /dev/null --dump-header - "$@"
}

headers https://www.example.org/ >/dev/null
headers https://www.example.org/ >headers
grep -i '^cache-status: Petasos; hit' headers
grep -i '^server: nginx' headers
test "$(grep -ci '^x-cache-status' headers)" -eq 0
headers http://www.example.org/ | grep '^HTTP/1.1 308'
test "$(systemctl is-enabled petasos)" = enabled

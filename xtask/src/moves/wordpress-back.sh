#!/bin/sh
# WordPress and its page cache answer again, and Petasos is off, also after a boot.
set -eu

sleep 3
curl --silent --fail --output /dev/null https://www.example.org/
curl --silent --fail --output /dev/null --dump-header headers https://www.example.org/
grep -i '^x-page-cache: hit' headers
test "$(grep -ci '^cache-status' headers)" -eq 0
test "$(systemctl is-active petasos)" != active
test "$(systemctl is-enabled petasos)" = disabled

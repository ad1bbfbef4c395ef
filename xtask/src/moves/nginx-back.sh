#!/bin/sh
# nginx answers from its cache again, and Petasos is off, also after a boot.
set -eu

# The old program may still be starting.
curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 \
    --output /dev/null --dump-header headers https://www.example.org/
grep -i '^x-cache-status: HIT' headers
test "$(grep -ci '^cache-status' headers)" -eq 0
test "$(systemctl is-active petasos)" != active
test "$(systemctl is-enabled petasos)" = disabled

#!/bin/sh
# nginx answers again, and Petasos is off, also after a boot.
set -eu

curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 \
    --output /dev/null --dump-header headers https://www.example.org/
test "$(grep -ci '^cache-status' headers)" -eq 0
test "$(systemctl is-active petasos)" != active
test "$(systemctl is-enabled petasos)" = disabled

#!/bin/sh
# Petasos answers from memory over TLS, no layer is missing, and the ladder of the stack $1 holds.
set -eu
cd /root
headers() {
    curl --silent --show-error --fail --location --retry 20 --retry-all-errors --retry-delay 1 \
        --output page.html --dump-header - "$@"
}
# The first visit starts the tasks that WordPress has planned, whose changes purge the page.
tries=0
until headers https://www.example.org/ | grep -i '^cache-status: Petasos; hit'; do
    tries=$((tries + 1))
    test "$tries" -lt 10
    sleep 1
done
curl --silent --output /dev/null --dump-header - http://www.example.org/ | grep '^HTTP/1.1 308'
grep -q '</html>' page.html

page=https://www.example.org$(sed -n 's/^page = "\(.*\)"/\1/p' "petasos/contrib/mercury/$1/ladder.toml")
petasos doctor --stack --url "$page" >doctor.txt || true
cat doctor.txt
grep -q '^0 failures, 0 warnings' doctor.txt
petasos ladder ladder.toml --quick --out ladder >ladder.txt 2>&1 || {
    cat ladder.txt
    exit 1
}
cat ladder.txt

#!/bin/sh
# Pictures are served, but not the deleted ones. The planned tasks run inside PHP-FPM.
set -eu
images=/var/lib/mediawiki/images
answer() {
    curl --silent --output /dev/null --write-out '%{http_code}' --header 'Host: www.example.org' \
        "http://127.0.0.1:8000/images/$1"
}
install -d -m 755 $images/trial $images/deleted/trial
echo picture >$images/trial/a.png
echo picture >$images/deleted/trial/a.png
test "$(answer trial/a.png)" = 200
test "$(answer deleted/trial/a.png)" = 403
rm -r $images/trial $images/deleted/trial
systemctl start mercury-tasks.service
systemctl is-active mercury-tasks.timer

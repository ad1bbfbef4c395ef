#!/bin/sh
# Uploaded pictures and the files of plugins are in another directory than the code, and uploaded
# programs are not run. The planned tasks run inside PHP-FPM.
set -eu
content=/var/lib/wordpress/wp-content
answer() {
    curl --silent --output /dev/null --write-out '%{http_code}' --header 'Host: www.example.org' \
        "http://127.0.0.1:8000/wp-content/$1"
}
mkdir -p $content/plugins/trial
echo picture >$content/uploads/trial.png
echo '<?php echo 1;' >$content/uploads/trial.php
echo 'p {}' >$content/plugins/trial/trial.css
echo '<?php echo "from a program";' >$content/plugins/trial/trial.php
chmod -R a+rX $content/plugins/trial
test "$(answer uploads/trial.png)" = 200
test "$(answer uploads/trial.php)" = 403
test "$(answer plugins/trial/trial.css)" = 200
curl --silent --fail --header 'Host: www.example.org' \
    http://127.0.0.1:8000/wp-content/plugins/trial/trial.php | grep -qx 'from a program'
rm -r $content/plugins/trial $content/uploads/trial.png $content/uploads/trial.php
systemctl start mercury-tasks.service
systemctl is-active mercury-tasks.timer

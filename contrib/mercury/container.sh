#!/bin/sh
# The first process of the application's container: waits for the database, installs the application
# once, and runs PHP-FPM or gunicorn beside nginx.
set -eu
# While MariaDB's image makes its files, a first server answers at the socket only.
until mariadb-admin --protocol=tcp --host=127.0.0.1 ping >/dev/null 2>&1 \
    && runuser -u www-data -- mariadb --execute='SELECT 1' site >/dev/null 2>&1; do
    sleep 1
done
sh "$APPLICATION/setup.sh" "$SITE"
echo "The password of the administrator is in /root/site-password of this container."
case $(cat "$APPLICATION/runtime") in
php) php-fpm8.2 --nodaemonize & ;;
python)
    install -d -o www-data -g www-data /run/mercury
    runuser -u www-data -- /opt/mercury/venv/bin/gunicorn --config /opt/mercury/gunicorn.conf.py &
    ;;
esac
# As tasks.timer of a machine.
tasks=$(cat "$APPLICATION/tasks")
while sleep 60; do
    runuser -u www-data -- sh -c "$tasks" || true
done &
exec nginx -g 'daemon off;'

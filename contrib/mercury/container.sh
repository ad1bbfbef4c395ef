#!/bin/sh
# The first process of the application's container: waits for the database, installs the application
# once, and runs PHP-FPM beside nginx.
set -eu
# While MariaDB's image makes its files, a first server answers at the socket only.
until runuser -u www-data -- php -r 'exit( @fsockopen( "127.0.0.1", 3306 )
    && @mysqli_connect( "localhost", "www-data", "", "site" ) ? 0 : 1 );'; do
    sleep 1
done
sh "$APPLICATION/setup.sh" "$SITE"
echo "The password of the administrator is in /root/site-password of this container."
php-fpm8.2 --nodaemonize &
# As tasks.timer of a machine.
page=$(cat "$APPLICATION/tasks")
while sleep 60; do
    runuser -u www-data -- php -r "file_get_contents( 'http://127.0.0.1:8000/$page' );"
done &
exec nginx -g 'daemon off;'

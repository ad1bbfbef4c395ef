#!/bin/sh
# The first process of the application's container: waits for the database, installs the application
# once, and runs PHP-FPM beside nginx.
set -eu
until runuser -u www-data -- php -r 'exit( @mysqli_connect( "localhost", "www-data", "", "site" ) ? 0 : 1 );'; do
    sleep 1
done
sh "$APPLICATION/setup.sh" "$SITE"
echo "The password of the administrator is in /root/site-password of this container."
php-fpm8.2 --nodaemonize &
exec nginx -g 'daemon off;'

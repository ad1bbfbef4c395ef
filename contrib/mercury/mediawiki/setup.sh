#!/bin/sh
# Configures MediaWiki for the host name $1, and installs it unless it is installed. The packages and
# the database are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
host=$1

if [ -e /etc/mediawiki/LocalSettings.php ]; then
    exit 0
fi
umask 077
head -c 15 /dev/urandom | base64 -w 0 >/root/site-password
work=$(mktemp -d)
install -o www-data -m 400 /root/site-password "$work/password"
chown www-data "$work"
runuser -u www-data -- php /usr/share/mediawiki/maintenance/install.php --confpath "$work" \
    --dbtype mysql --dbserver localhost --dbname site --dbuser www-data --dbpass '' \
    --server "https://$host" --scriptpath '' --passfile "$work/password" "$host" Admin
sed "s/www\.example\.org/$host/g" "$here/settings.php" >>"$work/LocalSettings.php"
install -o root -g www-data -m 640 "$work/LocalSettings.php" /etc/mediawiki/LocalSettings.php
ln -sf /etc/mediawiki/LocalSettings.php /var/lib/mediawiki/LocalSettings.php
rm -r "$work"

#!/bin/sh
# Configures WordPress for the host name $1, and installs it unless it is installed. The packages
# and the database are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
host=$1
content=/var/lib/wordpress/wp-content

mkdir -p "$content/plugins"
rm -rf "$content/plugins/petasos"
cp -r "$here/../../../integrations/wordpress/petasos" "$content/plugins/petasos"
install -m 644 "$content/plugins/petasos/drop-ins/object-cache.php" "$content/object-cache.php"
install -d -o www-data -g www-data "$content/uploads"

if [ ! -e /etc/wordpress/keys.php ]; then
    (
        echo '<?php'
        for name in AUTH SECURE_AUTH LOGGED_IN NONCE; do
            for kind in KEY SALT; do
                secret=$(head -c 48 /dev/urandom | base64 -w 0)
                echo "define( '${name}_$kind', '$secret' );"
            done
        done
    ) >/etc/wordpress/keys.php
    chown root:www-data /etc/wordpress/keys.php
    chmod 640 /etc/wordpress/keys.php
fi
sed "s/www\.example\.org/$host/g" "$here/config.php" >/etc/wordpress/config-default.php
umask 077
runuser -u www-data -- php /dev/stdin "$host" <"$here/install.php" >/root/site-password.new
if [ -s /root/site-password.new ]; then
    mv /root/site-password.new /root/site-password
fi
rm -f /root/site-password.new

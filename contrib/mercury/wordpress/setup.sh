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

# The first run makes the keys and the password. The password is stored before it is used.
if [ ! -e /etc/wordpress/keys.php ]; then
    (
        umask 077
        head -c 15 /dev/urandom | base64 -w 0 >/root/site-password
    )
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
SITE_PASSWORD=$(cat /root/site-password 2>/dev/null || true)
export SITE_PASSWORD
runuser -u www-data -- php /dev/stdin "$host" <"$here/install.php"

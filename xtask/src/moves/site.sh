#!/bin/sh
# Makes Debian's WordPress for www.example.org, in PHP-FPM and without a web server, and a
# certificate for it that this system trusts.
set -eu

printf '127.0.0.1 localhost www.example.org %s\n' "$(hostname)" >/etc/hosts
cd /root
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=www.example.org \
    -addext subjectAltName=DNS:www.example.org -keyout site.key -out site.pem 2>/dev/null
install -m 644 site.pem /usr/local/share/ca-certificates/site.crt
update-ca-certificates >/dev/null 2>&1
install -m 644 site.pem /etc/ssl/www.example.org.pem
install -m 600 site.key /etc/ssl/www.example.org.key

cat >/etc/wordpress/config-www.example.org.php <<'END'
<?php
define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'wordpress' );
define( 'DB_PASSWORD', 'wordpress' );
define( 'DB_HOST', 'localhost' );
define( 'WP_CONTENT_DIR', '/var/lib/wordpress/wp-content' );
define( 'WP_HOME', 'https://www.example.org' );
define( 'WP_SITEURL', 'https://www.example.org' );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'WP_ACCESSIBLE_HOSTS', '127.0.0.1' );
define( 'DISABLE_WP_CRON', true );
END
mysql -e "CREATE DATABASE wordpress; CREATE USER wordpress@localhost IDENTIFIED BY 'wordpress';
          GRANT ALL ON wordpress.* TO wordpress@localhost"
cat >install.php <<'END'
<?php
$_SERVER['HTTP_HOST'] = 'www.example.org';
define( 'WP_INSTALLING', true );
require '/usr/share/wordpress/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install( 'A site that moves', 'admin', 'admin@www.example.org', true, '', 'move-test' );
END
php install.php 2>/dev/null
rm /etc/nginx/sites-enabled/*

# The part of an nginx server that serves WordPress.
cat >/etc/nginx/snippets/wordpress.conf <<'END'
server_name www.example.org;
root /usr/share/wordpress;
index index.php;
location /wp-content { alias /var/lib/wordpress/wp-content; }
location / { try_files $uri $uri/ /index.php?$args; }
location ~ \.php$ {
    include snippets/fastcgi-php.conf;
    fastcgi_param HTTPS on;
    fastcgi_pass unix:/run/php/php8.2-fpm.sock;
}
END

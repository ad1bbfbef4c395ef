#!/bin/sh
# Makes Debian's WordPress answer at 127.0.0.1:8000 of the root that this runs in, and the
# certificate by which the authority pebble is known there.
set -eu

printf 'Listen 127.0.0.1:8000\n' >/etc/apache2/ports.conf
cat >/etc/apache2/sites-available/000-default.conf <<'END'
<VirtualHost 127.0.0.1:8000>
    DocumentRoot /usr/share/wordpress
    <Directory /usr/share/wordpress>
        Options FollowSymLinks
        AllowOverride None
        FallbackResource /index.php
        Require all granted
    </Directory>
    Alias /wp-content /var/lib/wordpress/wp-content
    <Directory /var/lib/wordpress/wp-content>
        Options FollowSymLinks
        Require all granted
    </Directory>
</VirtualHost>
END
cat >/etc/wordpress/config-wordpress.test.php <<'END'
<?php
if ( ( $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '' ) === 'https' ) { $_SERVER['HTTPS'] = 'on'; }
define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'wordpress' );
define( 'DB_PASSWORD', 'wordpress' );
define( 'DB_HOST', 'localhost' );
define( 'WP_CONTENT_DIR', '/var/lib/wordpress/wp-content' );
define( 'WP_HOME', 'https://wordpress.test' );
define( 'WP_SITEURL', 'https://wordpress.test' );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'DISABLE_WP_CRON', true );
END
mysql -e "CREATE DATABASE wordpress; CREATE USER wordpress@localhost IDENTIFIED BY 'wordpress';
          GRANT ALL ON wordpress.* TO wordpress@localhost"
cat >/root/install.php <<'END'
<?php
$_SERVER['HTTP_HOST'] = 'wordpress.test';
define( 'WP_INSTALLING', true );
require '/usr/share/wordpress/wp-load.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install( 'A site behind the package', 'admin', 'admin@wordpress.test', true, '', 'package-test' );
for ( $number = 1; $number <= 20; $number++ ) {
	wp_insert_post( array( 'post_title' => "Post $number", 'post_content' => str_repeat( "Text $number. ", 200 ), 'post_status' => 'publish' ) );
}
END
php /root/install.php 2>/dev/null
systemctl restart apache2

echo '127.0.0.1 wordpress.test' >>/etc/hosts
cd /root
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=pebble \
    -addext subjectAltName=IP:127.0.0.1 -keyout pebble.key -out pebble.pem 2>/dev/null
chmod 644 pebble.pem
cp pebble.pem /srv/acme-ca.pem

#!/bin/sh
# nginx at the public ports, and a small plug-in that stores pages in files for five minutes.
set -eu

cat >/etc/nginx/sites-available/www.example.org <<'END'
server {
    listen 80;
    server_name www.example.org;
    return 301 https://$host$request_uri;
}
server {
    listen 443 ssl http2;
    ssl_certificate /etc/ssl/www.example.org.pem;
    ssl_certificate_key /etc/ssl/www.example.org.key;
    include snippets/wordpress.conf;
}
END
ln -s ../sites-available/www.example.org /etc/nginx/sites-enabled/
systemctl restart nginx

# WordPress loads this file of a page cache before everything else.
cat >/var/lib/wordpress/wp-content/advanced-cache.php <<'END'
<?php
if ( 'GET' === ( $_SERVER['REQUEST_METHOD'] ?? '' ) && ! $_COOKIE && false === strpos( $_SERVER['REQUEST_URI'], 'wp-' ) ) {
	$page_cache_file = '/var/lib/wordpress/page-cache/' . md5( $_SERVER['REQUEST_URI'] );
	if ( is_file( $page_cache_file ) && filemtime( $page_cache_file ) > time() - 300 ) {
		header( 'X-Page-Cache: hit' );
		readfile( $page_cache_file );
		exit;
	}
	ob_start(
		function ( $page ) use ( $page_cache_file ) {
			if ( 200 === http_response_code() ) {
				file_put_contents( $page_cache_file, $page );
			}
			return $page;
		}
	);
}
END
install -d -o www-data -g www-data /var/lib/wordpress/page-cache
# The switch of the page cache.
sed -i "1a define( 'WP_CACHE', true );" /etc/wordpress/config-www.example.org.php
curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 --output /dev/null https://www.example.org/
curl --silent --fail --output /dev/null --dump-header - https://www.example.org/ | grep -i '^x-page-cache: hit'

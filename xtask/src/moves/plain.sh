#!/bin/sh
# nginx at the public ports, without a cache.
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
curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 --output /dev/null https://www.example.org/

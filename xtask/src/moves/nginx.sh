#!/bin/sh
# nginx at the public ports, with a cache for an application at 127.0.0.1:3000.
set -eu

cat >/etc/nginx/sites-available/application <<'END'
server {
    listen 127.0.0.1:3000;
    include snippets/wordpress.conf;
}
END
cat >/etc/nginx/sites-available/www.example.org <<'END'
proxy_cache_path /var/cache/nginx-site keys_zone=site:10m;
server {
    listen 80;
    server_name www.example.org;
    return 301 https://$host$request_uri;
}
server {
    listen 443 ssl http2;
    server_name www.example.org;
    ssl_certificate /etc/ssl/www.example.org.pem;
    ssl_certificate_key /etc/ssl/www.example.org.key;
    location / {
        proxy_pass http://127.0.0.1:3000;
        proxy_set_header Host $host;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_cache site;
        proxy_cache_valid 200 5m;
        proxy_cache_use_stale error timeout updating http_500 http_502;
        proxy_cache_lock on;
        proxy_cache_bypass $cookie_session;
        proxy_no_cache $cookie_session;
        add_header X-Cache-Status $upstream_cache_status always;
    }
}
END
ln -s ../sites-available/application ../sites-available/www.example.org /etc/nginx/sites-enabled/
systemctl restart nginx
curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 --output /dev/null https://www.example.org/
curl --silent --fail --output /dev/null --dump-header - https://www.example.org/ | grep -i '^x-cache-status: HIT'

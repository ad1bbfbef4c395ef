#!/bin/sh
# Varnish at port 80 and Hitch at port 443, in front of the site at 127.0.0.1:8080.
set -eu

cat >/etc/nginx/sites-available/www.example.org <<'END'
server {
    listen 127.0.0.1:8080;
    include snippets/wordpress.conf;
}
END
ln -s ../sites-available/www.example.org /etc/nginx/sites-enabled/
systemctl restart nginx

mkdir -p /etc/systemd/system/varnish.service.d
cat >/etc/systemd/system/varnish.service.d/override.conf <<'END'
[Service]
ExecStart=
ExecStart=/usr/sbin/varnishd -j unix,user=vcache -F -a :80 -a 127.0.0.1:8443,PROXY -T localhost:6082 \
    -f /etc/varnish/default.vcl -S /etc/varnish/secret -p feature=+http2 -s malloc,64m
END
cat >/etc/varnish/default.vcl <<'END'
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; .port = "8080"; }
acl purge { "127.0.0.1"; }
sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purge) { return (synth(405)); }
        return (purge);
    }
    if (std.port(local.ip) == 8443) { set req.http.X-Forwarded-Proto = "https"; }
    if (req.url ~ "^/wp-(admin|login)" || req.http.Cookie ~ "wordpress_logged_in|comment_author") {
        return (pass);
    }
    unset req.http.Cookie;
}
sub vcl_backend_response {
    if (bereq.url !~ "^/wp-(admin|login)") {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 5m;
    }
    set beresp.grace = 1h;
}
END
cat /root/site.key /root/site.pem >/etc/hitch/www.example.org.pem
chmod 600 /etc/hitch/www.example.org.pem
cat >/etc/hitch/hitch.conf <<'END'
frontend = "[*]:443"
backend = "[127.0.0.1]:8443"
pem-file = "/etc/hitch/www.example.org.pem"
user = "_hitch"
group = "_hitch"
write-proxy-v2 = on
alpn-protos = "h2,http/1.1"
END
systemctl daemon-reload
systemctl enable --quiet varnish hitch
systemctl restart varnish hitch
curl --silent --fail --retry 20 --retry-all-errors --retry-delay 1 --output /dev/null https://www.example.org/
curl --silent --fail --output /dev/null --dump-header - https://www.example.org/ | grep -i '^x-varnish: [0-9]* [0-9]'

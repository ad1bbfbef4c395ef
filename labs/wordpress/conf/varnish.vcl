# Varnish for the WordPress lab, as the owner of an ordinary site would configure it: anonymous
# pages are cached for two minutes. Requests of visitors with a WordPress session are passed.
vcl 4.1;

backend wordpress {
    .host = "{{nginx_opcode_host}}";
    .port = "{{nginx_opcode_port}}";
    .first_byte_timeout = 65s;
    .between_bytes_timeout = 65s;
}

sub vcl_recv {
    # lab-layers.php empties every cache.
    if (req.method == "BAN") {
        ban("req.url ~ .");
        return (synth(200));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.url ~ "^/(wp-admin|wp-login\.php|wp-cron\.php|wp-comments-post\.php|xmlrpc\.php)" || req.url ~ "[?&]preview=") {
        return (pass);
    }
    if (req.http.Authorization) {
        return (pass);
    }
    if (req.http.Cookie ~ "(wordpress_logged_in_|wordpress_sec_|wp-postpass_|comment_author_)") {
        return (pass);
    }
    # Cookies of analytics, WordPress' test cookie and the like do not change the page.
    unset req.http.Cookie;
    # Links in newsletters and advertisements lead to the same page.
    if (req.url ~ "[?&](utm_[a-z]+|gclid|fbclid)=") {
        set req.url = regsuball(req.url, "([?&])(utm_[a-z]+|gclid|fbclid)=[^&]*", "\1");
        set req.url = regsuball(req.url, "&&+", "&");
        set req.url = regsub(req.url, "\?&", "?");
        set req.url = regsub(req.url, "[?&]$", "");
    }
    return (hash);
}

sub vcl_backend_response {
    if (bereq.uncacheable) {
        return (deliver);
    }
    # WordPress sends no lifetime for visitors' pages.
    if (beresp.status == 200 && !beresp.http.Cache-Control && !beresp.http.Set-Cookie) {
        set beresp.ttl = 120s;
    }
    set beresp.grace = 1h;
}

sub vcl_deliver {
    if (obj.uncacheable) {
        set resp.http.X-Cache = "PASS";
    } elsif (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
}

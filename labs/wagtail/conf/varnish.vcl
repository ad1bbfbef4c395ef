# Varnish for the Wagtail lab, as the owner of an ordinary site would configure it: anonymous pages
# are cached for two minutes and purged by Wagtail. Requests of visitors with a session are passed.
vcl 4.1;

backend wagtail {
    .host = "{{nginx_templates_host}}";
    .port = "{{nginx_templates_port}}";
    .first_byte_timeout = 65s;
    .between_bytes_timeout = 65s;
}

acl purgers {
    "127.0.0.1";
}

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) {
            return (synth(403));
        }
        return (purge);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.url ~ "^/(admin|documents)/") {
        return (pass);
    }
    if (req.http.Authorization) {
        return (pass);
    }
    # A form needs its visitor's own token.
    if (req.http.Cookie ~ "(sessionid|csrftoken|messages)=") {
        return (pass);
    }
    # No other cookie changes a page.
    unset req.http.Cookie;
    return (hash);
}

sub vcl_backend_response {
    if (bereq.uncacheable) {
        return (deliver);
    }
    # Wagtail sends no lifetime for visitors' pages.
    if (beresp.status == 200 && !beresp.http.Cache-Control && !beresp.http.Set-Cookie) {
        set beresp.ttl = 120s;
    }
    set beresp.grace = 1h;
}

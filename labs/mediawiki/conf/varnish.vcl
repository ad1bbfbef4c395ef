# Varnish for the MediaWiki lab, as MediaWiki's manual demands of a cache: it obeys MediaWiki's
# Cache-Control and purges, and passes requests of visitors with a session.
vcl 4.1;

backend mediawiki {
    .host = "{{nginx_objects_host}}";
    .port = "{{nginx_objects_port}}";
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
    if (req.http.Authorization) {
        return (pass);
    }
    if (req.http.Cookie ~ "(_session|Token|LoggedOut|forceHTTPS)=") {
        return (pass);
    }
    # No other cookie changes a page.
    unset req.http.Cookie;
    return (hash);
}

sub vcl_backend_response {
    set beresp.grace = 1h;
}

sub vcl_deliver {
    # Purges reach this cache but not the browsers' caches.
    if (resp.http.Cache-Control ~ "s-maxage=[1-9]") {
        set resp.http.Cache-Control = "s-maxage=0, must-revalidate, max-age=0";
    }
}

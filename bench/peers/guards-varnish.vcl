# Varnish in front of the flooded application, with grace as in attacks-varnish.vcl. The module
# vsthrottle limits the misses and passes of each address, and of its network of 24 bits.
vcl 4.1;
import std;
import vsthrottle;

backend application {
    .host = "{{origin_host}}";
    .port = "{{origin_port}}";
    .connect_timeout = 3s;
    .probe = {
        .url = "/probe";
        .interval = 1s;
        .timeout = 1s;
        .window = 3;
        .threshold = 2;
        .initial = 2;
    }
}

sub vcl_recv {
    if (req.method == "BAN") {
        ban("obj.http.X-Url ~ " + req.http.X-Url);
        return (synth(200, "Banned"));
    }
    if (std.healthy(req.backend_hint)) {
        set req.grace = 10s;
    }
}

sub throttle {
    set req.http.X-Network = regsub(client.ip, "\.\d+$", "");
    if (vsthrottle.is_denied("client " + client.ip, 20, 1s) ||
        vsthrottle.is_denied("network " + req.http.X-Network, 80, 1s)) {
        return (synth(429, "Too Many Requests"));
    }
    unset req.http.X-Network;
}

sub vcl_miss {
    call throttle;
}

sub vcl_pass {
    call throttle;
}

sub vcl_backend_response {
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        return (abandon);
    }
    set beresp.grace = 24h;
    set beresp.http.X-Url = bereq.url;
}

# Varnish in front of the attacked application, as its user guide describes grace. A probe checks
# whether the application is healthy. Pages may be stale for ten seconds while it is, and for a day
# while it is not. A failed refresh does not replace the stored page. Bans test a header of the
# stored page, so that the ban lurker can process them.
vcl 4.1;
import std;

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

sub vcl_backend_response {
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        return (abandon);
    }
    set beresp.grace = 24h;
    set beresp.http.X-Url = bereq.url;
}

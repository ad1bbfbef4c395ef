# Varnish before the attacked application, as its user guide says for grace: a probe tells whether the application is
# healthy, pages may be ten seconds stale while it is, and a day while it is not. A failed refresh leaves the stored page
# alone. Bans are by a field of the stored page, so that the lurker can work them off.
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

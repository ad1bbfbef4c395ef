# Varnish before the pages of the store's benchmark, with the rules it comes with, and bans as its users write them: by
# a header of the stored page, so that the lurker can work them off.
vcl 4.1;

backend application {
    .host = "{{origin_host}}";
    .port = "{{origin_port}}";
}

sub vcl_recv {
    if (req.method == "BAN") {
        ban("obj.http.X-Cache-Tags ~ (^|\s)" + req.http.X-Cache-Tags + "(\s|$)");
        return (synth(200, "Banned"));
    }
}

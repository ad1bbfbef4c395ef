# Varnish in front of the pages of the store's benchmark, with its built-in rules. Bans test a
# header of the stored page, as users write them, so that the ban lurker can process them.
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

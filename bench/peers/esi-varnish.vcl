# Varnish in front of the templates of `cargo xtask bench esi`. What is below /gzip/ is stored
# compressed, so that clients with gzip need no compression at delivery; the rest is stored as it
# is, so that other clients need no decompression.
vcl 4.1;

backend application {
    .host = "{{origin_host}}";
    .port = "{{origin_port}}";
}

sub vcl_backend_response {
    if (beresp.http.Surrogate-Control ~ "ESI/1.0") {
        unset beresp.http.Surrogate-Control;
        set beresp.do_esi = true;
    }
    if (bereq.url ~ "^/gzip/") {
        set beresp.do_gzip = true;
    }
}

# Varnish before the benchmarks' application, with the rules it comes with.
vcl 4.1;

backend application {
    .host = "{{origin_host}}";
    .port = "{{origin_port}}";
}

# Varnish in front of the benchmarks' application, with its built-in rules.
vcl 4.1;

backend application {
    .host = "{{origin_host}}";
    .port = "{{origin_port}}";
}

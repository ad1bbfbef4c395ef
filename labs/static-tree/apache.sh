#!/bin/sh
# Apache for the ladder in this directory. One server is in front of the shop alone. The other one
# has the rules of the static tree and is in front of Petasos.
#
# Arguments, in order:
#
# - the petasos binary
# - the output directory
# - the address for the shop without the tree
# - the address for the shop with the tree
# - the shop's own address
# - Petasos' address
set -eu
petasos=$1 out=$(realpath "$2") plain=$3 web=$4 site=$5 edge=$6
modules=/usr/lib/apache2/modules
[ -x /usr/sbin/apache2 ] || { echo "apache2 is missing: apt-get install apache2-bin" >&2; exit 1; }

mkdir -p "$out/apache/empty"
"$petasos" static-tree rules apache --directory "$out/tree" >"$out/apache/rules.conf"
{
    for module in mpm_event authz_core headers rewrite proxy proxy_http; do
        echo "LoadModule ${module}_module $modules/mod_$module.so"
    done
    cat <<CONFIGURATION
ServerRoot $out/apache
ServerName localhost
PidFile $out/apache/pid
DefaultRuntimeDir $out/apache
ErrorLog $out/apache/error.log
User www-data
Group www-data
Listen $plain
Listen $web
<VirtualHost $plain>
    DocumentRoot $out/apache/empty
    ProxyPreserveHost On
    ProxyPass / http://$site/
</VirtualHost>
<VirtualHost $web>
    DocumentRoot $out/apache/empty
    ProxyPreserveHost On
    Include $out/apache/rules.conf
    ProxyPass / http://$edge/
</VirtualHost>
CONFIGURATION
} >"$out/apache/apache.conf"
exec /usr/sbin/apache2 -DFOREGROUND -f "$out/apache/apache.conf"

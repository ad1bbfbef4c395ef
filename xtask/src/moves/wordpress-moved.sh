#!/bin/sh
# What the guide does in wp-admin is done here first: Petasos' plug-in is activated, and the page
# cache of the other one is switched off. Then Petasos answers, and an edit purges the page.
set -eu
cd /root

# Runs PHP with WordPress loaded.
wordpress() {
    printf '<?php $_SERVER["HTTP_HOST"] = "www.example.org"; require "/usr/share/wordpress/wp-load.php";
        require_once ABSPATH . "wp-admin/includes/plugin.php"; %s' "$1" >do.php
    php do.php
}

headers() {
    curl --silent --fail --output /dev/null --dump-header - "$@"
}

wordpress 'if ( null !== activate_plugin( "petasos/petasos.php" ) ) { exit( 1 ); }'
sed -i "/define( 'WP_CACHE', true );/d" /etc/wordpress/config-www.example.org.php
# PHP notices a changed file after two seconds.
sleep 3
petasos purge --all
headers https://www.example.org/ >first
test "$(grep -ci '^x-page-cache' first)" -eq 0
headers https://www.example.org/ >second
grep -i '^cache-status: Petasos; hit' second
wordpress 'wp_insert_post( array( "post_title" => "A new post", "post_content" => "Text.", "post_status" => "publish" ) );'
curl --silent --fail --dump-header third https://www.example.org/ | grep -o 'A new post' >titles
test -s titles
grep -i '^cache-status: Petasos; fwd' third
test "$(systemctl is-enabled petasos)" = enabled

# The beginning of the way back in wp-admin.
wordpress 'deactivate_plugins( "petasos/petasos.php" );'

#!/bin/sh
# The plugin is activated, as the guide does in wp-admin. Petasos answers at both ports, and an edit
# purges the page.
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
# PHP notices a changed file after two seconds.
sleep 3
petasos purge --all
headers https://www.example.org/ >/dev/null
headers https://www.example.org/ | grep -i '^cache-status: Petasos; hit'
headers http://www.example.org/ | grep '^HTTP/1.1 308'
wordpress 'wp_insert_post( array( "post_title" => "A new post", "post_content" => "Text.", "post_status" => "publish" ) );'
curl --silent --fail --dump-header third https://www.example.org/ | grep -o 'A new post' >titles
test -s titles
grep -i '^cache-status: Petasos; fwd' third
test "$(systemctl is-enabled petasos)" = enabled

# The beginning of the way back in wp-admin.
wordpress 'deactivate_plugins( "petasos/petasos.php" );'

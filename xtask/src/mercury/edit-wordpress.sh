#!/bin/sh
# A new post is on the front page at once, because the plugin purges it. PHP-FPM makes the edit: the
# command line has an APCu of its own.
set -eu
cd /root
cat >/usr/share/wordpress/edit.php <<'END'
<?php
require '/usr/share/wordpress/wp-load.php';
wp_insert_post( array( 'post_title' => 'A new post', 'post_content' => 'Text.', 'post_status' => 'publish' ) );
END
curl --silent --show-error --fail --header 'Host: www.example.org' http://127.0.0.1:8000/edit.php
rm /usr/share/wordpress/edit.php
curl --silent --fail --dump-header headers https://www.example.org/ >page.html
grep -q 'A new post' page.html
grep -i '^cache-status: Petasos; fwd' headers

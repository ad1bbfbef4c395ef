#!/bin/sh
# A new text of the main page is there at once, because MediaWiki purges it.
set -eu
cd /root
echo 'A new text.' >/srv/text
cd /srv
runuser -u www-data -- php /usr/share/mediawiki/maintenance/edit.php --no-rc Main_Page </srv/text
# Purges are jobs, which a visitor's next request would run.
runuser -u www-data -- php /usr/share/mediawiki/maintenance/runJobs.php
cd /root
curl --silent --fail --dump-header headers https://www.example.org/wiki/Main_Page >page.html
grep -q 'A new text' page.html
grep -i '^cache-status: Petasos; fwd' headers

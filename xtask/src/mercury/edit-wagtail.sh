#!/bin/sh
# An editor logs in through Petasos and publishes a page. The front page lists it at once, because
# Petasos' package purges the front page.
set -eu
cd /root
site=https://www.example.org
visit() {
    curl --silent --show-error --fail --cookie jar --cookie-jar jar --referer "$site/" "$@"
}
send() {
    token=$(sed -n 's/.*name="csrfmiddlewaretoken" value="\([^"]*\)".*/\1/p' form.html | head -n 1)
    visit --output sent.html --write-out '%{http_code}\n' --data-urlencode "csrfmiddlewaretoken=$token" "$@"
}
visit --output form.html "$site/admin/login/"
test "$(send --data username=admin --data-urlencode "password=$(cat site-password)" "$site/admin/login/")" = 302
grep -q '^#HttpOnly_www.example.org.*TRUE.*sessionid' jar

# Page 1 is the root of all pages, 2 was Wagtail's greeting, and 3 is the home page.
form=$site/admin/pages/add/home/textpage/3/
visit --dump-header headers --output form.html "$form"
grep -i '^cache-status: Petasos; fwd=.*detail=pass' headers
block='{"key":"3so1f","text":"Text.","type":"unstyled","depth":0,"inlineStyleRanges":[],"entityRanges":[]}'
curl --silent --fail --output /dev/null $site/
curl --silent --output /dev/null --dump-header - $site/ | grep -i '^cache-status: Petasos; hit'
test "$(send --data-urlencode 'title=A new page' --data slug=new --data-urlencode \
    "body={\"blocks\":[$block],\"entityMap\":{}}" --data comments-TOTAL_FORMS=0 --data comments-INITIAL_FORMS=0 \
    --data action-publish=action-publish "$form")" = 302
curl --silent --fail --dump-header headers $site/ >page.html
grep -q 'A new page' page.html
# Without the package, the edge itself would mark the page as stale.
grep -i '^cache-status: Petasos; fwd=.*detail=miss-absent' headers
curl --silent --fail $site/new/ | grep -q 'data-block-key="3so1f">Text\.'

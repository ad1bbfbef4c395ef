#!/bin/sh
# Pictures and static files are served, but not the documents, which Wagtail sends. Petasos' package
# finds no fault, and the planned tasks publish a page.
set -eu
media=/var/lib/wagtail/media
answer() {
    curl --silent --output /dev/null --write-out '%{http_code}' --header 'Host: www.example.org' \
        "http://127.0.0.1:8000/media/$1"
}
install -d -m 755 $media/images $media/documents
echo picture >$media/images/trial.png
echo document >$media/documents/trial.pdf
test "$(answer images/trial.png)" = 200
test "$(answer documents/trial.pdf)" = 403
rm $media/images/trial.png $media/documents/trial.pdf

style=$(sed -n 's/.*href="\(\/static\/home\/[^"]*\)".*/\1/p' /root/page.html)
curl --silent --fail --output /dev/null --dump-header - "https://www.example.org$style" |
    grep -i '^cache-control: max-age=31536000, immutable'
test "$(stat --format %U /opt/mercury/project/home/__pycache__ "$media" | tr '\n' ' ')" = 'root www-data '

manage() {
    cd /opt/mercury/project
    runuser -u www-data -- /opt/mercury/venv/bin/python manage.py "$@"
}
manage check --tag petasos --deploy --fail-level WARNING
manage makemigrations --check --dry-run
manage shell --verbosity 0 <<'END'
from datetime import timedelta
from django.utils import timezone
from home.models import HomePage, TextPage
page = HomePage.objects.get().add_child(instance=TextPage(title="A planned page", live=False))
page.go_live_at = timezone.now() - timedelta(minutes=1)
page.save_revision(approved_go_live_at=page.go_live_at)
END
if curl --silent https://www.example.org/ | grep 'A planned page'; then
    exit 1
fi
systemctl start mercury-tasks.service
curl --silent --fail https://www.example.org/ | grep -q 'A planned page'
systemctl is-active mercury-tasks.timer

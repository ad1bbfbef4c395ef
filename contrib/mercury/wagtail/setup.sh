#!/bin/sh
# Puts the project into place for the host name $1, and makes its tables and its administrator unless
# they exist. The packages and the database are there.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
host=$1
project=/opt/mercury/project
python=/opt/mercury/venv/bin/python

# The first run makes the key and the password. The password is stored before it is used.
if [ ! -e /etc/wagtail/secret-key ]; then
    install -d -m 755 /etc/wagtail
    (
        umask 077
        head -c 15 /dev/urandom | base64 -w 0 >/root/site-password
        head -c 48 /dev/urandom | base64 -w 0 >/etc/wagtail/secret-key.new
    )
    chown root:www-data /etc/wagtail/secret-key.new
    chmod 640 /etc/wagtail/secret-key.new
    mv /etc/wagtail/secret-key.new /etc/wagtail/secret-key
fi
install -d -o www-data -g www-data -m 750 /var/lib/wagtail/media
install -d -o www-data -g www-data -m 700 /var/cache/wagtail

rm -rf "$project.new"
cp -r "$here/project" "$project.new"
cp -r "$here/../../../integrations/django/petasos_django" "$project.new/petasos_django"
sed -i "s/www\.example\.org/$host/g" "$project.new/stack/settings.py"
rm -rf "$project"
mv "$project.new" "$project"
cd "$project"
# The workers may not write compiled files themselves.
"$python" -m compileall -q .
"$python" manage.py collectstatic --no-input --verbosity 0
# As the user of the workers, whom the database knows.
runuser -u www-data -- "$python" manage.py migrate --no-input --verbosity 0
SITE_PASSWORD=$(cat /root/site-password 2>/dev/null || true)
export SITE_PASSWORD
runuser -u www-data -- "$python" manage.py shell --verbosity 0 <"$here/install.py"

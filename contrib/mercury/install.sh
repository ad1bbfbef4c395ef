#!/bin/sh
# Sets up a tuned WordPress, MediaWiki or Wagtail with Petasos in front, on a fresh Debian 12, as root:
#
#   sh contrib/mercury/install.sh wordpress www.example.org ./petasos_0.1.0-1_amd64.deb
#
# A fourth argument `CERT.pem,KEY.pem` takes the place of a certificate by ACME. A fifth one is a
# directory with the Python packages of Wagtail as wheels, for a machine without network; the fourth
# may be empty then. The commands may be run again.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
application=$1 host=$2 deb=$3 certificate=${4:-$2} wheels=${5:-}
runtime=$(cat "$here/$application/runtime")
export DEBIAN_FRONTEND=noninteractive

# The lists of packages of a new machine are empty, and its first boot may still hold apt's lock.
apt() {
    apt-get --option DPkg::Lock::Timeout=600 --yes --quiet "$@"
}
apt update
# nginx and PHP-FPM come first: WordPress and MediaWiki depend on any web server with PHP, and apt
# would choose Apache, which wants port 80.
for list in "$here/packages" "$here/$runtime/packages" "$here/$application/packages"; do
    # shellcheck disable=SC2046
    apt install --no-install-recommends $(cat "$list")
done

sh "$here/$runtime/prepare.sh" "$here/$application" "$wheels"
install -m 644 "$here/mariadb.cnf" /etc/mysql/mariadb.conf.d/90-mercury.cnf
install -m 644 "$here/nginx-http.conf" /etc/nginx/conf.d/mercury.conf
install -m 644 "$here/$application/nginx.conf" /etc/nginx/sites-available/mercury
ln -sf ../sites-available/mercury /etc/nginx/sites-enabled/mercury
rm -f /etc/nginx/sites-enabled/default
systemctl restart mariadb
mariadb <"$here/database.sql"
sh "$here/$application/setup.sh" "$host"

sed "s#COMMAND#$(cat "$here/$application/tasks")#" "$here/tasks.service" >/etc/systemd/system/mercury-tasks.service
install -m 644 "$here/tasks.timer" /etc/systemd/system/mercury-tasks.timer
case $runtime in
php) service=php8.2-fpm ;;
python)
    service=mercury-gunicorn
    install -m 644 "$here/python/gunicorn.service" /etc/systemd/system/mercury-gunicorn.service
    ;;
esac
systemctl daemon-reload
systemctl enable "$service"
systemctl restart "$service"
nginx -t
systemctl restart nginx
systemctl enable --now mercury-tasks.timer

apt install "$(realpath "$deb")"
sed "s#\"www\.example\.org\"#\"$certificate\"#" "$here/$application/petasos.toml" >/etc/petasos/petasos.toml
echo "names = [\"$host\"]" >>/etc/petasos/petasos.toml
petasos check /etc/petasos/petasos.toml
systemctl restart petasos
sed "s/www\.example\.org/$host/g" "$here/$application/ladder.toml" >/root/ladder.toml
echo "https://$host/ runs. The password of its administrator is in /root/site-password."

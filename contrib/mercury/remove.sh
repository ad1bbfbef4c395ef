#!/bin/sh
# Removes what install.sh has set up, but for Debian's packages, the database and the content. nginx
# is left without a site, and Wagtail's programs stay in /opt/mercury.
set -eu
for unit in mercury-tasks.timer mercury-gunicorn.service; do
    if [ -e "/etc/systemd/system/$unit" ]; then
        systemctl disable --now "$unit"
    fi
done
apt-get purge --yes --quiet petasos
rm -f /etc/php/8.2/fpm/conf.d/90-mercury.ini /etc/php/8.2/fpm/pool.d/zz-mercury.conf \
    /etc/mysql/mariadb.conf.d/90-mercury.cnf /etc/nginx/conf.d/mercury.conf \
    /etc/nginx/sites-enabled/mercury /etc/nginx/sites-available/mercury \
    /etc/systemd/system/mercury-tasks.service /etc/systemd/system/mercury-tasks.timer \
    /etc/systemd/system/mercury-gunicorn.service /root/ladder.toml
systemctl daemon-reload
systemctl restart mariadb nginx
# Wagtail has no PHP.
if systemctl cat php8.2-fpm >/dev/null 2>&1; then
    systemctl restart php8.2-fpm
fi

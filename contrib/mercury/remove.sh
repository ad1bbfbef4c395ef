#!/bin/sh
# Removes what install.sh has set up, but for Debian's packages, the database and the content. nginx
# is left without a site.
set -eu
systemctl disable --now mercury-tasks.timer || true
apt-get purge --yes --quiet petasos
rm -f /etc/php/8.2/fpm/conf.d/90-mercury.ini /etc/php/8.2/fpm/pool.d/zz-mercury.conf \
    /etc/mysql/mariadb.conf.d/90-mercury.cnf /etc/nginx/conf.d/mercury.conf \
    /etc/nginx/sites-enabled/mercury /etc/nginx/sites-available/mercury \
    /etc/systemd/system/mercury-tasks.service /etc/systemd/system/mercury-tasks.timer /root/ladder.toml
systemctl daemon-reload
systemctl restart mariadb php8.2-fpm nginx

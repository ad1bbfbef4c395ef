#!/bin/sh
# Adds an init and the stack of WordPress to a new Debian root. No service starts meanwhile.
set -eu
root=$1

printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
    systemd systemd-sysv dbus adduser ca-certificates curl logrotate openssl procps \
    apache2 libapache2-mod-php mariadb-server php-mysql wordpress wordpress-theme-twentytwentythree >/dev/null
rm "$root/usr/sbin/policy-rc.d"
chroot "$root" apt-get clean

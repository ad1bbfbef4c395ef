#!/bin/sh
# Adds an init, the stack of WordPress and further packages to a new Debian root, the last argument.
# No service starts meanwhile.
set -eu
packages=
while [ $# -gt 1 ]; do
    packages="$packages $1"
    shift
done
root=$1

printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
    systemd systemd-sysv dbus adduser ca-certificates curl logrotate openssl procps \
    mariadb-server php-mysql wordpress wordpress-theme-twentytwentythree $packages >/dev/null
rm "$root/usr/sbin/policy-rc.d"
chroot "$root" apt-get clean

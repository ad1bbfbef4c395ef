#!/bin/sh
# Removes the package, which keeps state and configuration, installs it again, and purges it, which
# keeps nothing.
set -eu
cd /root

dpkg --remove petasos >/dev/null
test "$(systemctl is-active petasos.service || true)" = inactive
test -z "$(pgrep -u petasos || true)"
test ! -e /usr/bin/petasos
for kept in /etc/petasos/petasos.toml /var/lib/petasos/acme /var/cache/petasos/mark; do
    test -e "$kept"
done
echo "a removal keeps configuration, certificates and stored pages"

dpkg --install petasos-2.deb >/dev/null
curl --silent --fail --cacert root.pem --output /dev/null --dump-header - https://wordpress.test/ |
    grep -i '^cache-status: Petasos; hit'

dpkg --purge petasos >/dev/null
find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /tmp -o -path /var/tmp \) -prune \
    -o -print | sort >after.list
# Files of other programs: databases and caches of dpkg and of the stack, and the journal.
comm -13 before.list after.list | grep -vE '^/var/(log/journal|lib/(dpkg|mysql|systemd|logrotate)|cache/man)(/|$)' \
    >left.list || true
cat left.list
test ! -s left.list
cmp /etc/passwd before.passwd
cmp /etc/group before.group
test "$(systemctl list-units --all --no-legend 'petasos*' | wc -l)" -eq 0
test ! -e /run/petasos
echo "a purge keeps nothing"

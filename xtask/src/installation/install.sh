#!/bin/sh
# Installs the package. The service must start and answer without any change of its configuration.
set -eu
cd /root

# What the package may not leave behind is found by comparison with this.
list() {
    find / -xdev \( -path /proc -o -path /sys -o -path /root -o -path /tmp -o -path /var/tmp \) -prune \
        -o -print | sort
}
list >before.list
cp /etc/passwd before.passwd
cp /etc/group before.group

dpkg --install petasos-1.deb >/dev/null
systemctl is-active petasos.service
systemctl is-enabled petasos.service
test "$(systemctl is-enabled petasos.socket || true)" = disabled
systemd-analyze verify --man=no petasos.service petasos.socket
curl --silent --fail http://127.0.0.1:8080/

main=$(systemctl show --property=MainPID --value petasos.service)
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$main/status" | tr '\t\n' '  '
echo
# CAP_NET_BIND_SERVICE is bit 10.
grep -q '^CapBnd:.*0000000000000400$' "/proc/$main/status"
test "$(stat --format=%U "/proc/$main")" = petasos

# Warnings of the root itself are no fault of the package: an overlay, and no time server.
petasos doctor >doctor.txt || test $? -eq 1
tail -n 1 doctor.txt

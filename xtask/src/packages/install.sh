#!/bin/sh
# Installs Debian packages without starting their services, now or at the next boot. Runs as root.
#
# Arguments: the file that keeps services from starting, the text it holds while this runs, then lists of
# packages, each installed before the next. An own policy of the machine's owner is never touched: if it lets
# services start, nothing is installed and the exit code is 3.
set -u
policy=$1
text=$2
shift 2

# What is started at boot, one name a line.
enabled() {
    find /etc/systemd/system -path '*.wants/*' -type l -printf '%f\n' 2>/dev/null
    find /etc/rc[2345].d -name 'S*' -printf '%f\n' 2>/dev/null | sed 's/^S[0-9]*//'
}

clean_up() {
    # The name takes effect only once; what follows must run even if the terminal goes away.
    trap '' HUP INT TERM
    trap - EXIT
    if [ -n "${before:-}" ]; then
        enabled | sort -u | while read -r name; do
            grep -qxF -e "$name" "$before" && continue
            echo "keeping $name from starting at boot"
            case $name in
                *.service | *.timer | *.socket | *.path) systemctl --quiet --no-reload disable "$name" ;;
                *) update-rc.d "$name" disable ;;
            esac
        done
        rm -f "$before"
    fi
    if [ "$(cat "$policy" 2>/dev/null)" = "$text" ]; then
        rm -f "$policy"
    fi
}

if [ -e "$policy" ]; then
    if [ "$(cat "$policy")" != "$text" ]; then
        "$policy" petasos-lab start >/dev/null 2>&1
        [ $? -eq 101 ] || exit 3
    fi
else
    trap clean_up EXIT
    trap 'clean_up; exit 130' HUP INT TERM
    printf '%s\n' "$text" >"$policy" && chmod 755 "$policy" || exit 1
fi
before=$(mktemp) || exit 1
trap clean_up EXIT
trap 'clean_up; exit 130' HUP INT TERM
enabled | sort -u >"$before"

export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
install() {
    # The list is split into words on purpose.
    # shellcheck disable=SC2086
    apt-get install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=120 $1 </dev/null || return 1
    # An interrupted apt-get can end as if all were well.
    # shellcheck disable=SC2086
    ! dpkg-query --show --showformat='${db:Status-Status}\n' $1 | grep -qvx installed
}
for list in "$@"; do
    # Missing or outdated lists of packages make the first try fail.
    install "$list" || { apt-get update --quiet -o DPkg::Lock::Timeout=120 && install "$list"; } || exit 1
done

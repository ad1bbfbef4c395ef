#!/bin/sh
# Installs Debian packages without starting their services, now or at the next boot. Runs as root.
#
# Arguments: the path of the policy file that keeps services from starting, its text while this
# script runs, then lists of packages. Each list is installed before the next.
#
# A policy of the machine's owner is never changed. If it lets services start, nothing is installed
# and the exit code is 3.
set -u
policy=$1
text=$2
shift 2

# Names of the services that start at boot, one a line.
enabled() {
    find /etc/systemd/system -path '*.wants/*' -type l -printf '%f\n' 2>/dev/null
    find /etc/rc[2345].d -name 'S*' -printf '%f\n' 2>/dev/null | sed 's/^S[0-9]*//'
}

clean_up() {
    # Runs once, and to its end even if the terminal is closed.
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
    # Unquoted, so that the list is split into words.
    # shellcheck disable=SC2086
    apt-get install --yes --quiet --no-install-recommends -o DPkg::Lock::Timeout=120 $1 </dev/null || return 1
    # apt-get can exit with 0 although it was interrupted.
    # shellcheck disable=SC2086
    ! dpkg-query --show --showformat='${db:Status-Status}\n' $1 | grep -qvx installed
}
for list in "$@"; do
    # The first attempt fails if the package lists are missing or outdated.
    install "$list" || { apt-get update --quiet -o DPkg::Lock::Timeout=120 && install "$list"; } || exit 1
done

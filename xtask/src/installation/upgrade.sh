#!/bin/sh
# Upgrades the package, reloads the service and rotates its log while two generators send $1
# requests a second each. Then upgrades it with a configuration that the new version refuses.
set -eu
cd /root

main() {
    systemctl show --property=MainPID --value petasos.service
}

# The generators must not be the program that dpkg replaces.
cp /usr/bin/petasos load
for protocol in 1.1 2; do
    ./load bench https://wordpress.test/ --ca root.pem --http "$protocol" --rate "$1" -t 50s --threads 1 \
        --variable-length --keep-going --json "load-$protocol.json" >"load-$protocol.txt" 2>&1 &
done
sleep 3
old=$(main)
dpkg --install petasos-2.deb >/dev/null
new=$(main)
echo "process $new took over from $old"
test "$new" -ne "$old"
test "$(dpkg-query --show --showformat='${Version}' petasos)" = 0.1.0-2
sleep 2
systemctl reload petasos.service
sleep 1
logrotate --force /etc/logrotate.d/petasos
test -s /var/log/petasos/access.log.1
# Longer than the watchdog's time.
sleep 35
test "$(main)" -eq "$new"
test "$(systemctl show --property=NRestarts --value petasos.service)" -eq 0
wait

cp /etc/petasos/petasos.toml good.toml
sed -i '1i unknown_setting = 1' /etc/petasos/petasos.toml
dpkg --install petasos-3.deb 2>&1 | grep 'did not take over'
test "$(main)" -eq "$new"
curl --silent --fail --cacert root.pem --output /dev/null https://wordpress.test/
cp good.toml /etc/petasos/petasos.toml
systemctl restart petasos.service

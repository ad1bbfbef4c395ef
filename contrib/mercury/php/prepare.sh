#!/bin/sh
# Puts the settings of PHP into place. The packages are there.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
install -m 644 "$here/php.ini" /etc/php/8.2/fpm/conf.d/90-mercury.ini
install -m 644 "$here/fpm.conf" /etc/php/8.2/fpm/pool.d/zz-mercury.conf

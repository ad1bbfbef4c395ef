#!/bin/sh
# Installs the Python packages of the application in the folder $1, and the settings of gunicorn. The
# directory $2 has the packages as wheels; without it, pip downloads them.
set -eu
umask 022
here=$(cd "$(dirname "$0")" && pwd)
application=$1 wheels=${2:-}
python=/opt/mercury/venv/bin/python

# The driver of the database is one of Debian's packages, because it has no wheel.
[ -e "$python" ] || python3 -m venv --system-site-packages /opt/mercury/venv
"$python" -m pip install --no-input --disable-pip-version-check --root-user-action=ignore \
    --only-binary=:all: ${wheels:+--no-index "--find-links=$wheels"} --requirement "$application/requirements.txt"
install -m 644 "$here/gunicorn.conf.py" /opt/mercury/gunicorn.conf.py

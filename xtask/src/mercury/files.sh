#!/bin/sh
# Every YAML file can be read, and the shell code in them and beside them has no fault.
set -eu
cd /root/petasos/contrib/mercury
python3 - <<'END'
import yaml
compose = yaml.safe_load(open("compose.yaml"))
named = {volume.split(":")[0] for service in compose["services"].values() for volume in service["volumes"]}
missing = {name for name in named if not name.startswith("./")} - set(compose["volumes"])
assert not missing, missing
machine = yaml.safe_load(open("cloud-init.yaml"))
assert set(machine) == {"write_files", "package_update", "packages", "runcmd"}, set(machine)
open("/root/runcmd.sh", "w").write("#!/bin/sh\n" + machine["runcmd"][0])
END
shellcheck --exclude=SC1091 /root/runcmd.sh
shellcheck -- *.sh */*.sh
echo "all files are well-formed"

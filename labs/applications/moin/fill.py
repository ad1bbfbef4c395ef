"""Makes a wiki by MoinMoin's own command, with its welcome page and help, and two accounts.

Usage: fill.py PASSWORD_FILE, in an empty directory, which becomes the wiki's.
"""

import subprocess
import sys
from pathlib import Path

subprocess.run([Path(sys.executable).with_name("moin"), "create-instance", "--full"], check=True)

from moin.app import create_app  # noqa: E402
from moin.user import create_user  # noqa: E402

password = Path(sys.argv[1]).read_text().strip()
with create_app().test_request_context("/"):
    for name in ["alice", "bob"]:
        refused = create_user(name, password, f"{name}@applications.test")
        if refused:
            sys.exit(f"MoinMoin refuses the account {name}: {refused}")

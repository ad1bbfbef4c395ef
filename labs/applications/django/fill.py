"""Makes the database, the files that nginx serves, two administrators, and sample users and groups.

Usage: fill.py PASSWORD_FILE, with the settings in DJANGO_SETTINGS_MODULE.
"""

import sys
from pathlib import Path

import django

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402

password = Path(sys.argv[1]).read_text().strip()
call_command("migrate", verbosity=0)
call_command("collectstatic", interactive=False, verbosity=0)
for name in ["alice", "bob"]:
    User.objects.create_superuser(name, f"{name}@applications.test", password)
for number in range(1, 31):
    User.objects.create_user(f"reader-{number}")
for name in ["editors", "translators", "readers"]:
    Group.objects.create(name=name)

"""Gives Wagtail's site the host name of the settings, and makes an administrator unless there is one.

SITE_PASSWORD of the environment becomes the password of the account "admin".
"""

import os
import sys

from django.conf import settings
from django.contrib.auth import get_user_model
from wagtail.models import Site

site = Site.objects.get(is_default_site=True)
if (site.hostname, site.port) != (settings.HOST, 443):
    site.hostname, site.port = settings.HOST, 443
    site.save()
users = get_user_model().objects
if not users.filter(is_superuser=True).exists():
    password = os.environ.get("SITE_PASSWORD")
    if not password:
        sys.exit("SITE_PASSWORD is empty; write a password to /root/site-password")
    users.create_superuser("admin", f"admin@{settings.HOST}", password)

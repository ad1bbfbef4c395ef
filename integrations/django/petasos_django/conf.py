"""The settings, from the dictionary `PETASOS` in Django's settings. README.md explains them.

Invariant: `current` never fails. An unusable value has a system check (`checks`) and counts as its
default, so that a mistake in these settings does not stop the site.
"""

from functools import lru_cache
from types import SimpleNamespace

from django.conf import settings
from django.core.signals import setting_changed
from django.dispatch import receiver

SECONDS_MAX = 31_536_000
# The default and the accepted types of each setting. `bool` is an `int` in Python, see `is_usable`.
DEFAULTS = {
    "ADMIN": ("", (str, list, tuple)),
    "EDGE": ("", (str, list, tuple)),
    "TOKEN": ("", (str,)),
    "TOKEN_FILE": ("", (str,)),
    "SITE": ("", (str,)),
    "HOST": ("", (str,)),
    "TIMEOUT": (2.0, (int, float)),
    "MODELS": ((), (list, tuple)),
    "COVERS_WRITES": (False, (bool,)),
    "TTL": (300, (int,)),
    "TTL_MISSING": (60, (int,)),
    "TTL_BROWSER": (0, (int,)),
    "STALE_ON_ERROR": (86_400, (int,)),
    "EXCLUDE_PATHS": ((), (list, tuple)),
    "PRIVATE_COOKIES": ((), (list, tuple)),
    "TAG_BYTES_MAX": (3000, (int,)),
    "CHECK_PATHS": (("/",), (list, tuple)),
    "WEBHOOK": ({}, (dict,)),
    "DEBUG": (False, (bool,)),
}


def is_usable(name, value):
    """Whether `value` has a type and a range that the setting `name` accepts."""
    types = DEFAULTS[name][1]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, str) for item in value)
    return not isinstance(value, (int, float)) or 0 <= value <= SECONDS_MAX


def stated():
    """The dictionary in Django's settings; an empty one if there is none."""
    found = getattr(settings, "PETASOS", {})
    return found if isinstance(found, dict) else {}


@lru_cache(maxsize=1)
def current():
    """All settings as attributes, with the defaults of those that are missing or unusable."""
    found = stated()
    values = {
        name: found[name] if name in found and is_usable(name, found[name]) else default
        for name, (default, _) in DEFAULTS.items()
    }
    for name in ("ADMIN", "EDGE"):
        value = values[name]
        values[name] = value.split() if isinstance(value, str) else list(value)
    return SimpleNamespace(**values)


def token():
    """The token of the edges, without white space around it; empty if there is none.

    The file is read each time, so that a new token needs no restart.
    """
    values = current()
    if values.TOKEN or not values.TOKEN_FILE:
        return values.TOKEN.strip()
    try:
        with open(values.TOKEN_FILE, encoding="utf-8") as file:
            return file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return ""


@receiver(setting_changed)
def _forget(setting, **_):
    if setting == "PETASOS":
        current.cache_clear()

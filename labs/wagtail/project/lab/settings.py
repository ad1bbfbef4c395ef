"""Settings of Django and Wagtail in the lab: those of Wagtail's project template, and the caches in
front.

`LAB_CACHE` selects what Django caches: `none`, `templates` (compiled templates) or `pages`
(whole pages as well).
"""

import os
from pathlib import Path

SITE = Path("{{site}}")
PROJECT = Path(__file__).resolve().parent
LAB_CACHE = os.environ.get("LAB_CACHE", "templates")
# Directory of the database. It is another one while the database is being made.
DATA = Path(os.environ.get("LAB_DATA", SITE / "data"))

DEBUG = False
SECRET_KEY = "{{secret_key}}"
ALLOWED_HOSTS = ["{{host}}", "127.0.0.1", "localhost"]

INSTALLED_APPS = [
    "lab",
    "wagtail.contrib.forms",
    "wagtail.contrib.frontend_cache",
    "wagtail.contrib.redirects",
    "wagtail.embeds",
    "wagtail.sites",
    "wagtail.users",
    "wagtail.snippets",
    "wagtail.documents",
    "wagtail.images",
    "wagtail.search",
    "wagtail.admin",
    "wagtail",
    "modelcluster",
    "taggit",
    "django_filters",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
]

MIDDLEWARE = [
    "lab.layers.layers",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "wagtail.contrib.redirects.middleware.RedirectMiddleware",
]
if LAB_CACHE == "pages":
    # The first must be outside and the second inside of all other middleware (Django's manual).
    MIDDLEWARE.insert(1, "django.middleware.cache.UpdateCacheMiddleware")
    MIDDLEWARE.append("django.middleware.cache.FetchFromCacheMiddleware")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": SITE / "cache",
        "OPTIONS": {"MAX_ENTRIES": 2000},
    }
}
CACHE_MIDDLEWARE_SECONDS = 120

ROOT_URLCONF = "lab.urls"
WSGI_APPLICATION = "lab.wsgi.application"

LOADERS = [
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PROJECT / "templates"],
        "OPTIONS": {
            "loaders": LOADERS if LAB_CACHE == "none" else [("django.template.loaders.cached.Loader", LOADERS)],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA / "db.sqlite3",
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = SITE / "static"
MEDIA_URL = "/media/"
MEDIA_ROOT = DATA / "media"
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

WAGTAIL_SITE_NAME = "Petasos lab"
WAGTAILADMIN_BASE_URL = "http://{{host}}"
WAGTAILSEARCH_BACKENDS = {"default": {"BACKEND": "wagtail.search.backends.database"}}
WAGTAIL_ENABLE_UPDATE_CHECK = False
WAGTAIL_GRAVATAR_PROVIDER_URL = None

# The caches in front. Wagtail purges a changed page from them, by the page's public URL.
WAGTAILFRONTENDCACHE = {
    name: {"BACKEND": "wagtail.contrib.frontend_cache.backends.HTTPBackend", "LOCATION": location}
    for name, location in {"petasos": "http://{{edge}}", "varnish": "http://{{varnish}}"}.items()
}

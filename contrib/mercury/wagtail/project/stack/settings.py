"""Settings of the stack: Wagtail on MariaDB, behind nginx and Petasos on the same machine.

A project of your own keeps them, and changes the first entry of INSTALLED_APPS.
"""

from pathlib import Path

HOST = "www.example.org"
DEBUG = False
SECRET_KEY = Path("/etc/wagtail/secret-key").read_text()
ALLOWED_HOSTS = [HOST]

INSTALLED_APPS = [
    "home",
    "petasos_django",
    "wagtail.contrib.forms",
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
    "petasos_django.middleware.PetasosMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "wagtail.contrib.redirects.middleware.RedirectMiddleware",
]

# Each page says how long Petasos may keep it, and each publication purges the pages of Wagtail.
PETASOS = {"ADMIN": "http://127.0.0.1:8081", "MODELS": ["wagtailcore.Page"]}

# The object cache. All workers and commands share its files, which the system keeps in memory.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.filebased.FileBasedCache",
        "LOCATION": "/var/cache/wagtail",
        "OPTIONS": {"MAX_ENTRIES": 2000},
    }
}
SESSION_ENGINE = "django.contrib.sessions.backends.cached_db"
SESSION_COOKIE_SECURE = True
CSRF_COOKIE_SECURE = True

ROOT_URLCONF = "stack.urls"
WSGI_APPLICATION = "stack.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # Compiled templates stay in memory, as always without DEBUG.
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# MariaDB asks the system who is at the other end of the socket. Each worker keeps its connection.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.mysql",
        "HOST": "/run/mysqld/mysqld.sock",
        "NAME": "site",
        "USER": "www-data",
        "OPTIONS": {"charset": "utf8mb4"},
        "CONN_MAX_AGE": 600,
        "CONN_HEALTH_CHECKS": True,
    }
}
# MariaDB has no unique constraints with conditions. Wagtail has one, whose rule it also checks itself.
SILENCED_SYSTEM_CHECKS = ["models.W036"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

# The name of a file has a hash of its content, so browsers may keep it for a year.
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"},
}
STATIC_URL = "/static/"
STATIC_ROOT = "/opt/mercury/static"
MEDIA_URL = "/media/"
MEDIA_ROOT = "/var/lib/wagtail/media"
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

WAGTAIL_SITE_NAME = HOST
WAGTAILADMIN_BASE_URL = f"https://{HOST}"
WAGTAILSEARCH_BACKENDS = {"default": {"BACKEND": "wagtail.search.backends.database"}}

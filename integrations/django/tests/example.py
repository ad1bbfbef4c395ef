"""A small Django site for the tests: settings, pages and a server.

    python3 example.py DATABASE

serves it at a free port of 127.0.0.1. The first line of its output is the port. The first line of
its input is the admin address of an edge; the site answers after it has read this line. A POST to
`/article/7/` with a title changes that article.
"""

import sys
from pathlib import Path

import django
from django.conf import settings

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

MIDDLEWARE = [
    "petasos_django.middleware.PetasosMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]


def configure(database, petasos):
    """Sets Django up once for this process."""
    settings.configure(
        SECRET_KEY="only for tests",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="pages",
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": database}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "petasos_django",
            "news",
        ],
        MIDDLEWARE=MIDDLEWARE,
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                    ],
                    "loaders": [("django.template.loaders.locmem.Loader", TEXTS)],
                },
            }
        ],
        USE_TZ=True,
        PETASOS=petasos,
    )
    django.setup()


# The list greets a user, so each view of it reads the session.
TEXTS = {
    "detail.html": "<!doctype html><title>{{ article.title }}</title>",
    "list.html": "<!doctype html>{{ user.username|default:'nobody' }}{% for each in articles %}<p>{{ each.title }}{% endfor %}",
    "form.html": "<!doctype html><form method=post>{% csrf_token %}</form>",
    "tagged.html": "{% load petasos %}{% petasos_tag article 'menu' %}{{ article.title }}",
}


def make_tables():
    """Makes the tables that are missing, and two articles."""
    from django.core.management import call_command
    from django.db import connection
    from news.models import Article, Code, Label, Report

    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        for model in (Label, Article, Report, Code):
            editor.create_model(model)
    for key, title in ((7, "first"), (8, "second")):
        Article.objects.create(pk=key, title=title)


def serve(database):
    """Serves the site until the process ends."""
    values = {"MODELS": ["news"], "TTL": 600, "DEBUG": True}
    configure(database, values)
    make_tables()
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from django.core.wsgi import get_wsgi_application

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Handler(WSGIRequestHandler):
        def log_message(self, *_):
            pass

    with make_server("127.0.0.1", 0, get_wsgi_application(), Server, Handler) as server:
        print(server.server_port, flush=True)
        values["ADMIN"] = sys.stdin.readline().strip()
        # The middleware has read the settings before.
        from petasos_django import conf

        conf.current.cache_clear()
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])

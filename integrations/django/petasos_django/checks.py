"""System checks: what keeps pages from being shared, or purges from arriving.

`manage.py check` reads settings only. `manage.py check --deploy` also sends a purge that matches no
page to each edge, and requests the pages of `CHECK_PATHS` from Django itself, without a cookie.

An error of a check without `--deploy` stops most commands, such as `migrate`. So only mistakes in
`PETASOS` are errors there. What depends on the machine or the rest of the site is a warning.
"""

import difflib

from django.apps import apps
from django.conf import settings
from django.core.checks import Error, Warning, register
from django.test import Client

from . import conf, webhook
from .changes import chosen_models
from .edge import EdgeError, is_address
from .purges import edges

MIDDLEWARE = "petasos_django.middleware.PetasosMiddleware"
# Middleware that sets cookies or Cache-Control, so it must come after ours.
INNER = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.cache.UpdateCacheMiddleware",
    "django.middleware.locale.LocaleMiddleware",
)
PAGE_CACHE = "django.middleware.cache.FetchFromCacheMiddleware"
# Django's names of the cookies that the edge's profiles know.
COOKIES = {
    "SESSION_COOKIE_NAME": "sessionid",
    "CSRF_COOKIE_NAME": "csrftoken",
    "LANGUAGE_COOKIE_NAME": "django_language",
}


@register("petasos")
def check_settings(app_configs, **_):
    """The types and names in `PETASOS`."""
    if not isinstance(getattr(settings, "PETASOS", {}), dict):
        return [Error("PETASOS is no dictionary.", id="petasos.E001")]
    found = []
    for name, value in conf.stated().items():
        if name not in conf.DEFAULTS:
            near = difflib.get_close_matches(str(name), conf.DEFAULTS, 1)
            hint = f"Did you mean {near[0]}?" if near else None
            found.append(Error(f"PETASOS has the unknown key {name!r}.", hint=hint, id="petasos.E001"))
        elif not conf.is_usable(name, value):
            found.append(Error(f"PETASOS[{name!r}] has a wrong type or range.", id="petasos.E002"))
    values = conf.current()
    for address in values.ADMIN + values.EDGE:
        if not is_address(address):
            hint = "Write an address such as http://127.0.0.1:8081."
            found.append(Error(f"{address!r} is no address of an edge.", hint=hint, id="petasos.E003"))
    for name in chosen_models(values.MODELS)[1]:
        found.append(Error(f"PETASOS['MODELS'] names {name!r}, which is no model.", id="petasos.E004"))
    if values.WEBHOOK:
        for mistake in webhook.mistakes(values.WEBHOOK):
            found.append(Error(f"PETASOS['WEBHOOK']: {mistake}.", id="petasos.E005"))
    return found


@register("petasos")
def check_purges(app_configs, **_):
    """Whether purges have an address, a token and a reason."""
    values = conf.current()
    if not values.ADMIN and not values.EDGE:
        hint = "Set PETASOS['ADMIN'] to the admin address of the edge, such as http://127.0.0.1:8081."
        return [Warning("No edge is named, so nothing is purged.", hint=hint, id="petasos.W010")]
    found = []
    if values.TOKEN_FILE and not conf.token():
        hint = "Commands may run as a user who cannot read it. The server needs it to purge."
        text = f"The token file {values.TOKEN_FILE} cannot be read, or is empty."
        found.append(Warning(text, hint=hint, id="petasos.W014"))
    elif not conf.token() and not values.ADMIN:
        hint = "Set PETASOS['TOKEN_FILE'], or list this machine in purge_peers of the edge."
        found.append(Warning("Purges carry no token.", hint=hint, id="petasos.W011"))
    if values.EDGE and not values.ADMIN and not values.HOST:
        hint = "Set PETASOS['HOST'] to the public name of the site."
        found.append(Warning("Purges by tag do not name their site.", hint=hint, id="petasos.W012"))
    is_by_url = getattr(settings, "WAGTAILFRONTENDCACHE", None)
    if not values.MODELS and not is_by_url:
        hint = "Set PETASOS['MODELS'], or call petasos_django.purge where content changes."
        found.append(Warning("No change of a model purges pages.", hint=hint, id="petasos.W013"))
    return found


@register("petasos")
def check_site(app_configs, **_):
    """What in Django's settings keeps pages from being shared."""
    found = []
    order = list(settings.MIDDLEWARE)
    if MIDDLEWARE not in order:
        hint = f"Write {MIDDLEWARE!r} as its first entry."
        found.append(Warning("MIDDLEWARE lacks that of Petasos.", hint=hint, id="petasos.W020"))
    else:
        early = [name for name in order[: order.index(MIDDLEWARE)] if name in INNER]
        if early:
            hint = "Write it as the first entry: it must see the cookies that the others set."
            found.append(Warning(f"The middleware of Petasos comes after {early[0]}.", hint=hint, id="petasos.W021"))
    if settings.SESSION_SAVE_EVERY_REQUEST:
        hint = "Remove SESSION_SAVE_EVERY_REQUEST: it sets a cookie with each page that has a session."
        found.append(Warning("Each request saves its session.", hint=hint, id="petasos.W022"))
    if settings.CSRF_USE_SESSIONS:
        hint = "Remove CSRF_USE_SESSIONS: each page with a form starts a session for its visitor."
        found.append(Warning("Tokens of forms are stored in sessions.", hint=hint, id="petasos.W023"))
    if PAGE_CACHE in order:
        hint = "Remove both cache middlewares: Petasos does not share the pages that Django's cache returns."
        found.append(Warning("Django's page cache is on.", hint=hint, id="petasos.W024"))
    for name, usual in COOKIES.items():
        value = getattr(settings, name)
        if value != usual:
            hint = f'Write session_cookies = ["{value}"] for the site in petasos.toml.'
            found.append(Warning(f"{name} is {value!r}, which the edge does not know.", hint=hint, id="petasos.W025"))
    return found


@register("petasos", deploy=True)
def check_edges(app_configs, **_):
    """Whether each edge accepts purges."""
    found = []
    for edge in edges():
        try:
            edge.test()
        except EdgeError as error:
            hint = "Is Petasos running there, and is it the token of its token_file?"
            found.append(Error(f"The edge does not accept purges: {error}.", hint=hint, id="petasos.E030"))
    return found


@register("petasos", deploy=True)
def check_pages(app_configs, **_):
    """Whether an anonymous visitor gets pages that may be shared."""
    if not apps.ready or MIDDLEWARE not in settings.MIDDLEWARE:
        return []
    hosts = [host for host in settings.ALLOWED_HOSTS if "*" not in host]
    host = conf.current().HOST or (hosts[0].lstrip(".") if hosts else "localhost")
    found = []
    for path in conf.current().CHECK_PATHS:
        try:
            # A page of a site that redirects to https is requested as if it came by https.
            response = Client(raise_request_exception=False).get(path, HTTP_HOST=host, secure=True)
        except Exception as error:
            found.append(Warning(f"{path} cannot be requested: {error}", id="petasos.W031"))
            continue
        control = response.get("Cache-Control", "")
        names = list(response.cookies)
        if names:
            found.append(Warning(_cookie_text(path, names[0]), hint=_cookie_hint(names[0]), id="petasos.W032"))
        elif "private" in control or "no-store" in control or not control:
            hint = "PETASOS['DEBUG'] = True adds the reason to the response as X-Petasos-Private."
            text = f"{path} is not shared: status {response.status_code}, Cache-Control {control!r}."
            found.append(Warning(text, hint=hint, id="petasos.W033"))
    return found


def _cookie_text(path, name):
    return f"{path} sets the cookie {name} for an anonymous visitor, so it is not shared."


def _cookie_hint(name):
    if name == settings.CSRF_COOKIE_NAME:
        return "A template of the page has {% csrf_token %}. Move the form to a page of its own, or load it by script."
    if name == settings.SESSION_COOKIE_NAME:
        return "A view or middleware writes to request.session. Write only when a visitor does something."
    return "Set the cookie only when a visitor does something."

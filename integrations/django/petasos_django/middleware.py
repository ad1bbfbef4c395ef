"""Sets Cache-Control and the cache tags of each page.

Invariant: a page becomes `public` only if every anonymous visitor would get it. What a view states
itself counts, with two exceptions. A page with a sign of a visitor never stays shareable by
`max-age` alone. A page that is certainly of one visitor, or excluded, never stays shareable at all.
A page that is not shareable has no tags.
"""

from fnmatch import fnmatchcase

from django.apps import apps
from django.conf import settings
from django.utils.cache import patch_cache_control
from django.utils.deprecation import MiddlewareMixin

from . import conf
from .names import MISSING, names_in
from .purges import is_waiting

TAG_HEADER = "Surrogate-Key"
STATUSES = (200, 301, 304, 308, 404, 410)
STATUSES_MISSING = (404, 410)
PRIVATE = "private, no-store"
# Tells the edge that the application purges itself what this write has changed.
PURGES_FIELD = "X-Petasos-Purges"


class Page:
    """What is known of the page that answers a request."""

    def __init__(self):
        self.tags = set()
        self.is_personal = False


class PetasosMiddleware(MiddlewareMixin):
    """The first entry of `MIDDLEWARE`, so that it sees the cookies that all others set."""

    def process_request(self, request):
        request.petasos = Page()

    def process_template_response(self, request, response):
        request.petasos.tags.update(names_in(getattr(response, "context_data", None)))
        return response

    def process_response(self, request, response):
        values = conf.current()
        if request.method not in ("GET", "HEAD"):
            # While an edge has missed a purge, the edge's own rules are the better ones.
            if values.COVERS_WRITES and (values.ADMIN or values.EDGE) and not is_waiting():
                response[PURGES_FIELD] = "1"
            return response
        stated = response.get("Cache-Control", "").lower()
        if "private" in stated or "no-store" in stated:
            return response
        certain = certain_reason(request, response, values)
        if "no-cache" in stated and certain is None:
            return response
        if response.status_code in STATUSES_MISSING:
            request.petasos.tags.add(MISSING)
        tags = known_tags(request, values)
        reason = certain or likely_reason(request, response, values)
        is_stated = "public" in stated or "s-maxage" in stated
        if tags is not None and (reason is None or (is_stated and certain is None)):
            return _share(response, stated, tags, values)
        reason = reason or "its tags are unknown, because it is from Django's page cache, or too long"
        if values.DEBUG:
            response["X-Petasos-Private"] = reason
        if not is_stated and (stated or response.has_header("Expires")):
            patch_cache_control(response, private=True)
        else:
            response["Cache-Control"] = PRIVATE
        return response


def _share(response, stated, tags, values):
    """Adds the tags, and a lifetime if none is stated."""
    if not stated and not response.has_header("Expires"):
        lifetime = values.TTL_MISSING if response.status_code in STATUSES_MISSING else values.TTL
        if lifetime == 0:
            return response
        response["Cache-Control"] = (
            f"public, max-age={min(lifetime, values.TTL_BROWSER)}, s-maxage={lifetime},"
            f" stale-if-error={values.STALE_ON_ERROR}"
        )
    if tags:
        response[TAG_HEADER] = f"{response[TAG_HEADER]} {tags}" if response.has_header(TAG_HEADER) else tags
    return response


def certain_reason(request, response, values):
    """Why nobody else may get the page, whatever its view states, as a text; or None."""
    if request.petasos.is_personal:
        return "a view has called petasos_django.personal"
    if any(fnmatchcase(request.path, pattern) for pattern in values.EXCLUDE_PATHS):
        return "the path is one of EXCLUDE_PATHS"
    if response.cookies:
        return f"the response sets the cookie {next(iter(response.cookies))}"
    if is_logged_in(request):
        return "a user is logged in"
    return None


def likely_reason(request, response, values):
    """Why a page that states nothing may be of this visitor only, as a text; or None."""
    if response.status_code not in STATUSES:
        return f"the status is {response.status_code}"
    if "HTTP_AUTHORIZATION" in request.META:
        return "the request has Authorization"
    for name in request.COOKIES:
        if any(fnmatchcase(name, pattern) for pattern in private_cookies(values)):
            return f"the request has the cookie {name}"
    if "*" in [part.strip() for part in response.get("Vary", "").split(",")]:
        return "the response varies by everything"
    return None


def known_tags(request, values):
    """The value of the tag field; None if a purge by tag could miss the page."""
    # Django's cache middleware clears this mark for a page that it has found. The view did not run.
    if getattr(request, "_cache_update_cache", None) is False:
        return None
    return tag_field(request.petasos.tags, values.TAG_BYTES_MAX)


def private_cookies(values):
    """The names of cookies that mark a visitor."""
    return (
        settings.SESSION_COOKIE_NAME,
        settings.CSRF_COOKIE_NAME,
        settings.LANGUAGE_COOKIE_NAME,
        "messages",
        *values.PRIVATE_COOKIES,
    )


def is_logged_in(request):
    """Whether a view or a template has seen a logged-in user.

    Reads what they have loaded, because loading it here would make each page vary by cookie.
    """
    users = (getattr(request, name, None) for name in ("_cached_user", "_acached_user"))
    if any(getattr(user, "is_authenticated", False) for user in users):
        return True
    # Authentication without a session sets the user itself, in place of Django's lazy one.
    user = request.__dict__.get("user")
    return user is not None and not hasattr(user, "_wrapped") and bool(getattr(user, "is_authenticated", False))


def tag_field(tags, bytes_max):
    """The value of the tag field, or None if it would be longer than `bytes_max`.

    If it is too long, models replace their objects: a change of an object purges both tags.
    """
    for names in (tags, {name.partition(":")[0] if _is_object(name) else name for name in tags}):
        field = " ".join(sorted(names))
        if len(field.encode()) <= bytes_max:
            return field
    return None


def _is_object(name):
    """Whether the tag is of an object of a model of this site, and no tag of the owner's own."""
    model, colon, _ = name.partition(":")
    if not colon or model.count(".") != 1:
        return False
    try:
        apps.get_model(model)
    except LookupError:
        return False
    return True

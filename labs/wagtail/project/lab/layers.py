"""Adds header fields for the ladder's proofs: Django's cache mode, and whether the page was cached.
"""

from django.conf import settings


def layers(get_response):
    """The outermost middleware."""

    def answer(request):
        response = get_response(request)
        response["X-Lab-Cache"] = settings.LAB_CACHE
        # Django's cache middleware sets this attribute to False if the response came from its
        # cache.
        kept = getattr(request, "_cache_update_cache", True) is False and request.method in ("GET", "HEAD")
        response["X-Lab-Page"] = "kept" if kept else "made"
        return response

    return answer

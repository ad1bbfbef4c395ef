"""Says in the header of every answer what Django keeps, and whether this page was kept: the ladder's proofs read it."""

from django.conf import settings


def layers(get_response):
    """The outermost middleware."""

    def answer(request):
        response = get_response(request)
        response["X-Lab-Cache"] = settings.LAB_CACHE
        # The cache's own middleware says by this whether it still has something to keep.
        kept = getattr(request, "_cache_update_cache", True) is False and request.method in ("GET", "HEAD")
        response["X-Lab-Page"] = "kept" if kept else "made"
        return response

    return answer

"""The search, which is a plain Django view and not a Wagtail page."""

from django.core.paginator import Paginator
from django.template.response import TemplateResponse
from wagtail.models import Page


def search(request):
    """Shows published pages that match the query, ten at a time."""
    query = request.GET.get("query", "")
    found = Page.objects.live().search(query) if query else Page.objects.none()
    results = Paginator(found, 10).get_page(request.GET.get("page"))
    return TemplateResponse(request, "lab/search.html", {"query": query, "results": results})

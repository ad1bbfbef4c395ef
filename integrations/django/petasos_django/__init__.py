"""Cache tags, lifetimes and purges for Django and Wagtail sites behind Petasos.

A *tag* names a part of the content. A page carries the tags of all its parts, and a purge by tag
removes each page that carries the tag. Everything that takes tags here also takes model instances,
model classes and querysets, and finds their tags (see `names`).
"""

from .names import names_of
from .purges import purge, purge_all, purge_urls

__version__ = "0.1.0"
__all__ = ["personal", "purge", "purge_all", "purge_urls", "tag"]


def tag(request, *things):
    """Adds the tags of `things` to the page that answers `request`.

    Without the middleware, this does nothing.
    """
    page = getattr(request, "petasos", None)
    if page is not None:
        for thing in things:
            page.tags.update(names_of(thing))


def personal(request):
    """Marks the page that answers `request` as personal: no cache may share it."""
    page = getattr(request, "petasos", None)
    if page is not None:
        page.is_personal = True

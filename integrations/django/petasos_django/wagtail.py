"""The backend for `wagtail.contrib.frontend_cache`.

    WAGTAILFRONTENDCACHE = {"petasos": {"BACKEND": "petasos_django.wagtail.PetasosBackend"}}

Wagtail purges the URLs of a page that is published or unpublished. With this backend, it does so by
the addresses and the token of the setting `PETASOS`.
"""

from wagtail.contrib.frontend_cache.backends import BaseBackend

from .purges import purge_urls


class PetasosBackend(BaseBackend):
    """Sends purges by URL. Errors are in the log `petasos`."""

    def __init__(self, params):
        # Before version 6, the base class takes no parameters.
        if BaseBackend.__init__ is not object.__init__:
            super().__init__(params)

    def purge(self, url):
        purge_urls(url)

    def purge_batch(self, urls):
        purge_urls(*urls)

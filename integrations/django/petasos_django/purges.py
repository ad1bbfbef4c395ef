"""Sends purges to all edges, and then to the webhook of a content delivery network.

Invariant: no function raises because of an edge. Errors are written to the log `petasos` and
returned, so that a change of the content never fails because a cache is down.
"""

import logging

from django.utils.encoding import iri_to_uri

from . import conf, webhook
from .edge import Edge, EdgeError
from .names import changes_of

logger = logging.getLogger("petasos")

# A purge of more tags purges the whole site.
TAGS_MAX = 2000


class Failures:
    """Number of failed purges of this process."""

    count = 0


def edges():
    """The edges of the settings: those with an admin address if there are any, else the others."""
    values = conf.current()
    token = conf.token()
    return [
        Edge(address, bool(values.ADMIN), token, values.SITE, values.HOST, values.TIMEOUT)
        for address in values.ADMIN or values.EDGE
    ]


def purge(*things):
    """Purges the pages with the tags of `things`: texts, model instances, classes or querysets.

    Returns the errors as texts; none means that every edge has purged.
    """
    tags = {name for thing in things for name in changes_of(thing)}
    if len(tags) > TAGS_MAX:
        return purge_all()
    if not tags:
        return []
    return _everywhere(lambda edge: edge.purge_tags(tags), {"tags": sorted(tags)})


def purge_urls(*urls):
    """Purges pages by their public URLs, such as `https://www.example.org/news/`.

    Returns the errors as texts, see `purge`.
    """
    urls = sorted({iri_to_uri(url) for url in urls})
    return _everywhere(lambda edge: edge.purge_urls(urls), {"urls": urls}) if urls else []


def purge_all():
    """Purges the whole site. Returns the errors as texts, see `purge`."""
    return _everywhere(lambda edge: edge.purge_all(), {"everything": True})


def _everywhere(send, what):
    errors = []
    for edge in edges():
        try:
            send(edge)
        except EdgeError as error:
            Failures.count += 1
            errors.append(str(error))
    # Afterwards: a network that fetches a page again must get it from an edge that has purged it.
    error = webhook.send(**what)
    if error:
        errors.append(error)
    for error in errors:
        logger.error("purge failed: %s. Visitors may see outdated pages.", error)
    return errors

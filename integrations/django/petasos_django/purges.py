"""Sends purges to all edges, and then to the webhook of a content delivery network.

Invariant: no function raises because of an edge. Errors are written to the log `petasos` and
returned, so that a change of the content never fails because a cache is down. What has failed is
sent again after later requests of this process.
"""

import logging
import time

from django.core.signals import request_finished
from django.utils.encoding import iri_to_uri

from . import conf, webhook
from .edge import Edge, EdgeError
from .names import changes_of
from .retries import WEBHOOK, Purge, Queue

logger = logging.getLogger("petasos")

# A purge of more tags purges the whole site.
TAGS_MAX = 2000


queue = Queue()


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
    return _everywhere(Purge(tags=tags))


def purge_urls(*urls):
    """Purges pages by their public URLs, such as `https://www.example.org/news/`.

    Returns the errors as texts, see `purge`.
    """
    return _everywhere(Purge(urls={iri_to_uri(url) for url in urls})) if urls else []


def purge_all():
    """Purges the whole site. Returns the errors as texts, see `purge`."""
    return _everywhere(Purge(everything=True))


def listen():
    """Sends failed purges again when a request has ended, so that no visitor waits for it."""
    request_finished.connect(lambda **_: retry(), weak=False, dispatch_uid="petasos_retry")


def retry():
    """Sends the failed purges of this process again, if their pause is over.

    A network in front is told once more: since the failure, it may have fetched a page from an edge
    that had not purged it.
    """
    now = time.monotonic()
    taken = queue.take(now)
    if not taken:
        return
    try:
        for_network = taken.get(WEBHOOK, Purge())
        for edge in edges():
            purge = taken.get(edge.address)
            if purge is not None and _send(edge, purge, now) is None:
                logger.warning("the purges that %s has missed were sent.", edge.address)
                for_network.add(purge)
        _tell_network(for_network, now)
    finally:
        queue.finish()


def is_waiting():
    """Whether an edge of the settings has missed a purge so far."""
    return queue.waits_for([edge.address for edge in edges()])


def _everywhere(purge):
    now = time.monotonic()
    errors = [_send(edge, purge, now) for edge in edges()]
    # Afterwards: a network that fetches a page again must get it from an edge that has purged it.
    errors.append(_tell_network(purge, now))
    return [error for error in errors if error]


def _send(edge, purge, now):
    """Sends a purge to an edge. Returns the error as a text, or None."""
    try:
        if purge.everything:
            edge.purge_all()
        if purge.tags:
            edge.purge_tags(purge.tags)
        if purge.urls:
            edge.purge_urls(purge.urls)
    except EdgeError as error:
        return _failed(edge.address, purge, str(error), now)
    queue.reached(edge.address, purge, now)
    return None


def _tell_network(purge, now):
    """Sends a purge to the webhook. Returns the error as a text, or None."""
    # One kind at a time: the content of the request may have a place for one of them only.
    for part in purge.parts():
        error = webhook.send(tags=sorted(part.tags), urls=sorted(part.urls), everything=part.everything)
        if error:
            return _failed(WEBHOOK, purge, error, now)
        queue.reached(WEBHOOK, part, now)
    return None


def _failed(address, purge, error, now):
    queue.add(address, purge, now)
    logger.error("purge failed: %s. Visitors may see outdated pages. It will be tried again.", error)
    return error

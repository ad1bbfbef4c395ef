"""Purges what a change of a model has made outdated, after the transaction has ended well.

Only models of the setting `MODELS` count. Their instances are observed by Django's signals; pages
of Wagtail by Wagtail's, because Wagtail also saves a page when a draft of it is saved.

Invariant: a tag is purged after the transaction that changed it, never before: a page that is
generated in between would be outdated. A transaction that is rolled back may leave its tags for the
next purge of the same connection, which is harmless.
"""

import threading

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models.signals import m2m_changed, post_delete, post_save

from . import conf
from .names import MISSING, changes_of, is_wagtail_page
from .purges import purge

_state = threading.local()


class Batch:
    """The tags that the transactions of one connection have changed."""

    def __init__(self):
        self.tags = set()

    def send(self):
        """Purges all tags. The first call after a transaction sends, further ones do nothing."""
        tags, self.tags = self.tags, set()
        if tags:
            purge(*tags)


def changed(tags, using=None):
    """Purges these tags when the transaction of the connection `using` has ended.

    Outside of a transaction, it purges at once.
    """
    if not hasattr(_state, "batches"):
        _state.batches = {}
    batch = _state.batches.setdefault(using, Batch())
    batch.tags.update(tags)
    transaction.on_commit(batch.send, using=using)


def chosen_models(names):
    """The models of these names, such as `news`, `news.Article`, and the names that mean none."""
    models, unknown = [], []
    for name in names:
        try:
            if "." in name:
                models.append(apps.get_model(name))
            else:
                models.extend(apps.get_app_config(name).get_models())
        except (LookupError, ValueError):
            unknown.append(name)
    return tuple(models), unknown


def _is_chosen(model):
    models, _ = chosen_models(conf.current().MODELS)
    return issubclass(model, models)


def _saved(sender, instance, created=False, using=None, **_):
    if _is_chosen(sender) and not is_wagtail_page(sender):
        changed(changes_of(instance) + ([MISSING] if created else []), using)


def _deleted(sender, instance, using=None, **_):
    if _is_chosen(sender):
        changed(changes_of(instance), using)


def _related(instance, model, action, pk_set, using=None, **_):
    if not action.startswith("post_"):
        return
    tags = changes_of(instance) if _is_chosen(type(instance)) else []
    if _is_chosen(model):
        tags = tags + changes_of(model)
        for key in pk_set or ():
            # The object itself is not needed for its tags.
            tags += changes_of(model(pk=key))
    if tags:
        changed(tags, using)


def _page_changed(sender, instance, **_):
    if _is_chosen(type(instance)):
        changed([*changes_of(instance), MISSING])


def listen():
    """Connects all signals. The models are compared when a signal comes."""
    post_save.connect(_saved, dispatch_uid="petasos_saved")
    post_delete.connect(_deleted, dispatch_uid="petasos_deleted")
    m2m_changed.connect(_related, dispatch_uid="petasos_related")
    try:
        from wagtail import signals
    except ImportError:
        try:
            from wagtail.core import signals
        except (ImportError, ImproperlyConfigured):
            return
    for name in ("page_published", "page_unpublished", "page_slug_changed", "post_page_move"):
        signal = getattr(signals, name, None)
        if signal is not None:
            signal.connect(_page_changed, dispatch_uid=f"petasos_{name}")

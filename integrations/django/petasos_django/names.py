"""The tags of models: `news.article:7` is one object, `news.article` all objects of the model.

A page that shows an object carries the tag of the object. A page that lists objects carries the tag
of their model. A change of an object purges both tags, because a changed object may enter or leave
a list. So the tag of the model may also replace the tags of objects that are too long to be sent.

A model that inherits from another one in the database has the tags of both. So a page is purged in
whichever form its object was saved.
"""

import sys
from urllib.parse import quote

from django.core.paginator import Page
from django.db.models import Manager, Model, QuerySet
from django.db.models.query import RawQuerySet
from django.utils.functional import LazyObject

# The tag of pages that did not exist. A new object may be what they would have shown.
MISSING = "404"
# Characters that a tag cannot have become percent-encoded: white space, commas, and the bar.
_SAFE = "!$&'()*+-./:;=?@_~"


def models_of(model):
    """The names of a model class and of the models that it inherits from in the database."""
    model = model._meta.concrete_model
    return [each._meta.label_lower for each in [model, *model._meta.get_parent_list()]]


def objects_of(instance):
    """The names of an object, one for each model that it belongs to."""
    model = instance._meta.concrete_model
    names = []
    for each in [model, *model._meta.get_parent_list()]:
        key = getattr(instance, each._meta.pk.attname, None)
        link = None if each is model else model._meta.get_ancestor_link(each)
        if key is None and link is not None:
            # Old versions of Django leave the parent's key of `Model(pk=...)` empty.
            key = getattr(instance, link.attname)
        if key is not None:
            names.append(f"{each._meta.label_lower}:{quote(str(key), safe=_SAFE)}")
    return names


def names_of(thing):
    """The tags that a page gets which shows `thing`.

    `thing` is a text, a model instance, a model class, a queryset or a manager. A text is a tag
    itself. Raises `ValueError` for a text that is no tag, and `TypeError` for any other type.
    """
    if isinstance(thing, str):
        if not thing or any(character.isspace() or character in ",|" for character in thing):
            raise ValueError(f"{thing!r} is no tag: it is empty, or has a space, a comma or a bar")
        return [thing]
    if isinstance(thing, Model):
        # The menus and lists on a page of Wagtail show other pages.
        return objects_of(thing) + (models_of(type(thing)) if is_wagtail_page(thing) else [])
    if isinstance(thing, (QuerySet, RawQuerySet, Manager)):
        return models_of(thing.model)
    if isinstance(thing, type) and issubclass(thing, Model):
        return models_of(thing)
    raise TypeError(f"a page cannot be tagged with {type(thing).__name__}")


def changes_of(thing):
    """The tags that are purged when `thing` changes; see `names_of` for its types."""
    if isinstance(thing, Model):
        return objects_of(thing) + models_of(type(thing))
    return names_of(thing)


def names_in(context):
    """The tags of what a template gets: objects, querysets, and lists or pages of objects."""
    names = set()
    for value in (context or {}).values():
        if isinstance(value, LazyObject):
            # Looking at it would load the user, and make each page vary by cookie.
            continue
        if isinstance(value, Page):
            value = value.object_list
        if isinstance(value, (Model, QuerySet, RawQuerySet)):
            names.update(names_of(value))
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, Model):
                    names.update(objects_of(item) + models_of(type(item)))
    return names


def is_wagtail_page(thing):
    """Whether `thing` is a page of Wagtail, without importing Wagtail."""
    for name in ("wagtail.models", "wagtail.core.models"):
        page = getattr(sys.modules.get(name), "Page", None)
        if page is not None and (isinstance(thing, page) or (isinstance(thing, type) and issubclass(thing, page))):
            return True
    return False

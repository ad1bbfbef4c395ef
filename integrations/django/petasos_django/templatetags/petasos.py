"""`{% petasos_tag article %}` in a template: the page shows this object, or lists this queryset.

The template's context must have the request, by the context processor `request`. The tag must be
outside of `{% cache %}`: inside, it runs only when the fragment is rendered, and a page with the
stored fragment would lack its tags.
"""

from django import template

from .. import tag

register = template.Library()


@register.simple_tag(takes_context=True)
def petasos_tag(context, *things):
    """Adds the tags of `things` to the page, and prints nothing."""
    request = context.get("request")
    if request is not None:
        tag(request, *things)
    return ""

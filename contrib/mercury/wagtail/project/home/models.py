"""The pages of the site: a home page, and pages with text below it."""

from wagtail.admin.panels import FieldPanel
from wagtail.fields import RichTextField
from wagtail.models import Page
from wagtail.search import index


class HomePage(Page):
    """The home page, which lists the pages below it."""

    body = RichTextField(blank=True)
    content_panels = Page.content_panels + [FieldPanel("body")]
    parent_page_types = ["wagtailcore.Page"]


class TextPage(Page):
    """A page with text. It may have pages below it, which it lists."""

    body = RichTextField(blank=True)
    content_panels = Page.content_panels + [FieldPanel("body")]
    search_fields = Page.search_fields + [index.SearchField("body")]
    parent_page_types = ["home.HomePage", "home.TextPage"]

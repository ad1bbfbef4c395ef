"""The page types: a home page, an index of articles, articles, a form."""

from django.core.paginator import Paginator
from django.db import models
from modelcluster.fields import ParentalKey
from wagtail.admin.panels import FieldPanel, InlinePanel
from wagtail.contrib.forms.models import AbstractForm, AbstractFormField
from wagtail.contrib.frontend_cache.utils import PurgeBatch
from wagtail.fields import RichTextField
from wagtail.models import Page
from wagtail.search import index
from wagtail.signals import page_published, page_unpublished


class HomePage(Page):
    """The home page, with the newest articles."""

    intro = RichTextField(blank=True)
    content_panels = Page.content_panels + [FieldPanel("intro")]

    def get_context(self, request):
        context = super().get_context(request)
        context["newest"] = Article.objects.live().order_by("-date")[:12]
        return context


class ArticleIndex(Page):
    """All articles, the newest first, divided into pages."""

    def get_context(self, request):
        context = super().get_context(request)
        articles = Article.objects.live().child_of(self).order_by("-date")
        context["articles"] = Paginator(articles, 20).get_page(request.GET.get("page"))
        return context


class Article(Page):
    """An article."""

    date = models.DateField()
    summary = models.TextField(blank=True)
    body = RichTextField(blank=True)
    content_panels = Page.content_panels + [FieldPanel("date"), FieldPanel("summary"), FieldPanel("body")]
    search_fields = Page.search_fields + [index.SearchField("body")]

    def get_context(self, request):
        context = super().get_context(request)
        context["others"] = Article.objects.live().sibling_of(self, inclusive=False).filter(date__lt=self.date)[:6]
        return context


class Question(AbstractFormField):
    """A field of the form."""

    page = ParentalKey("FormPage", on_delete=models.CASCADE, related_name="form_fields")


class FormPage(AbstractForm):
    """A form that visitors fill in."""

    thanks = RichTextField(blank=True)
    content_panels = AbstractForm.content_panels + [
        InlinePanel("form_fields", label="Fields"),
        FieldPanel("thanks"),
    ]


def purge_lists(instance, **_):
    """Purges the pages that list an article. Wagtail purges the article's own page."""
    batch = PurgeBatch()
    batch.add_page(instance.get_parent().specific)
    batch.add_pages(HomePage.objects.live())
    batch.purge()


page_published.connect(purge_lists, sender=Article)
page_unpublished.connect(purge_lists, sender=Article)

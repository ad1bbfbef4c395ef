"""The pages of the site for the tests."""

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path
from django.views.decorators.cache import cache_control, cache_page
from django.views.decorators.csrf import csrf_exempt
from django.views.generic import DetailView
from news.models import Article

import petasos_django


class Detail(DetailView):
    model = Article
    template_name = "detail.html"

    def post(self, request, pk):
        article = get_object_or_404(Article, pk=pk)
        article.title = request.POST["title"]
        article.save()
        return HttpResponse("saved")


def front(request):
    return TemplateResponse(request, "list.html", {"articles": Article.objects.order_by("pk")})


def paginated(request):
    page = Paginator(list(Article.objects.order_by("pk")), 1).page(1)
    return TemplateResponse(request, "list.html", {"articles": page.object_list, "page": page})


def form(request):
    return TemplateResponse(request, "form.html")


def tagged(request):
    return TemplateResponse(request, "tagged.html", {"article": Article.objects.get(pk=7)})


def many(request):
    petasos_django.tag(request, *Article.objects.all(), *(f"news.article:{key}" for key in range(1000)), "own.tag:1")
    return HttpResponse("many")


def personal(request):
    petasos_django.personal(request)
    return HttpResponse("only yours")


@cache_control(public=True, max_age=60)
def stated(request):
    petasos_django.tag(request, "stated")
    return HttpResponse("stated")


@cache_control(public=True, s_maxage=60)
def claimed(request):
    """States that it is shared, although the query makes it personal."""
    response = TemplateResponse(request, "list.html") if "user" in request.GET else HttpResponse("claimed")
    if "cookie" in request.GET:
        response.set_cookie("seen", "1")
    if "personal" in request.GET:
        petasos_django.personal(request)
    if "revalidated" in request.GET:
        response["Cache-Control"] = "no-cache"
    return response


@cache_control(max_age=60)
def limited(request):
    return HttpResponse("limited")


@cache_page(60)
def kept(request):
    petasos_django.tag(request, "kept")
    return HttpResponse("kept")


def log_in(request):
    user, _ = User.objects.get_or_create(username="alice")
    login(request, user, "django.contrib.auth.backends.ModelBackend")
    return HttpResponse("welcome")


urlpatterns = [
    path("", front),
    path("article/<int:pk>/", csrf_exempt(Detail.as_view())),
    path("paginated/", paginated),
    path("form/", form),
    path("tagged/", tagged),
    path("many/", many),
    path("personal/", personal),
    path("stated/", stated),
    path("claimed/", claimed),
    path("limited/", limited),
    path("kept/", kept),
    path("login/", log_in),
]

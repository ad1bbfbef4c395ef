"""The admin, as in Django's tutorial, and robots.txt, which the lab requests to see if Django
answers. Visits of robots are permitted, so that the lab shows what they meet.
"""

from django.contrib import admin
from django.http import HttpResponse
from django.urls import path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("robots.txt", lambda request: HttpResponse("User-agent: *\nDisallow:\n", content_type="text/plain")),
]

"""Models with each kind of relation that tags must follow."""

from django.db import models


class Label(models.Model):
    name = models.CharField(max_length=50)

    class Meta:
        app_label = "news"


class Article(models.Model):
    title = models.CharField(max_length=100)
    labels = models.ManyToManyField(Label)

    class Meta:
        app_label = "news"


class Report(Article):
    """An article in two tables."""

    class Meta:
        app_label = "news"


class Code(models.Model):
    """Its key has characters that a tag cannot have."""

    key = models.CharField(max_length=20, primary_key=True)

    class Meta:
        app_label = "news"

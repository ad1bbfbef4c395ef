"""`manage.py petasos_purge`: purges pages by URL, tag or model, or the whole site."""

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError

from ... import conf
from ...names import names_of
from ...purges import edges, purge, purge_all, purge_urls


class Command(BaseCommand):
    help = "Purges pages from Petasos, by the addresses of the setting PETASOS."

    def add_arguments(self, parser):
        parser.add_argument("urls", nargs="*", metavar="URL", help="public URL of a page")
        parser.add_argument("--tag", action="append", default=[], help="pages with this tag")
        parser.add_argument(
            "--model", action="append", default=[], metavar="APP.MODEL[:KEY]", help="pages that list it, or show one"
        )
        parser.add_argument("--all", action="store_true", help="the whole site")

    def handle(self, *, urls, tag, model, all, **_):  # noqa: A002 (the name of the option)
        if all == bool(urls or tag or model):
            raise CommandError("Name URLs, --tag or --model, or --all alone.")
        for url in urls:
            if not url.startswith(("http://", "https://")):
                raise CommandError(f"{url} is no URL such as https://www.example.org/news/.")
        tags = self.tags(tag, model)
        if not edges() and not conf.current().WEBHOOK:
            raise CommandError("PETASOS names no edge: set ADMIN or EDGE.")
        errors = purge_all() if all else []
        if urls:
            errors += purge_urls(*urls)
        if tags:
            errors += purge(*tags)
        if errors:
            raise CommandError("\n".join(errors))
        self.stdout.write("Purged.")

    def tags(self, tags, models):
        """All tags that the options name."""
        try:
            for name in tags:
                names_of(name)
            for name in models:
                label, colon, key = name.partition(":")
                model = apps.get_model(label)
                tags = [*tags, *names_of(model(pk=model._meta.pk.to_python(key)) if colon else model)]
        except Exception as error:
            # Of unknown models, unusable keys and texts that are no tags.
            raise CommandError(str(error)) from error
        return tags

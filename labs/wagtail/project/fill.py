"""Fills a new database through Wagtail's own models: accounts, a home page, articles, a form.

The content and its dates come from a fixed seed, so that all labs hold the same pages. Usage:
fill.py ADMIN_PASSWORD_FILE USER_PASSWORD_FILE HOSTNAME, with the settings in
DJANGO_SETTINGS_MODULE.
"""

import datetime
import random
import string
import sys
from pathlib import Path

import django

django.setup()

from django.contrib.auth.models import Group, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from lab.models import Article, ArticleIndex, FormPage, HomePage, Question  # noqa: E402
from wagtail.models import Page, Site  # noqa: E402

ARTICLES = 100
FIRST_DATE = datetime.date(2024, 1, 2)
SUBJECTS = ["The old bridge", "A quiet street", "The night train", "The village baker", "Every second garden",
            "The harbour", "A small workshop", "The winter market", "An open window", "The mountain path"]
VERBS = ["remembers", "carries", "explains", "repairs", "follows", "collects", "measures", "hides", "invites", "draws"]
OBJECTS = ["the morning light", "a box of letters", "what the river brought", "the sound of tools",
           "a map without names", "the taste of plums", "three kinds of bread", "an unexpected answer",
           "the smell of wet wood", "a promise to come back"]
ENDINGS = ["before the shops open", "in the middle of the week", "whenever the wind turns", "without a word",
           "on the far side of the hill", "and nobody minds", "between two showers", "as the lamps go on"]

KEY_CHARACTERS = string.ascii_lowercase + string.digits

chance = random.Random(20091115)
keys = random.Random(20091116)


def sentence():
    return " ".join(chance.choice(words) for words in (SUBJECTS, VERBS, OBJECTS, ENDINGS)) + "."


def text(sentences):
    return " ".join(sentence() for _ in range(sentences))


def block(element, content):
    """A block of rich text as Wagtail's editor saves it: with a key."""
    key = "".join(keys.choice(KEY_CHARACTERS) for _ in range(5))
    return f'<{element} data-block-key="{key}">{content}</{element}>'


def body():
    parts = []
    for _ in range(4):
        parts.append(block("h2", chance.choice(SUBJECTS)))
        parts += [block("p", text(chance.randint(3, 7))) for _ in range(3)]
    return "".join(parts)


def accounts(admin_password, user_password):
    User.objects.create_superuser("admin", "admin@wagtail.test", admin_password)
    # Moderators may publish.
    moderators = Group.objects.get(name="Moderators")
    for name in ("alice", "bob"):
        User.objects.create_user(name, f"{name}@wagtail.test", user_password).groups.add(moderators)


def pages(hostname):
    root = Page.get_first_root_node()
    for greeting in root.get_children():
        greeting.delete()
    root = Page.get_first_root_node()
    home = root.add_child(instance=HomePage(title="Notes from a small town", slug="home", intro=block("p", text(3))))
    Site.objects.all().delete()
    Site.objects.create(hostname=hostname, root_page=home, is_default_site=True, site_name="Petasos lab")
    index = home.add_child(instance=ArticleIndex(title="Articles", slug="articles", show_in_menus=True))
    for number in range(1, ARTICLES + 1):
        title = " ".join(chance.choice(words) for words in (SUBJECTS, VERBS, OBJECTS))
        date = FIRST_DATE + datetime.timedelta(days=3 * number)
        index.add_child(instance=Article(
            title=title, slug=f"article-{number}", date=date, summary=text(2), body=body()))
    form = home.add_child(instance=FormPage(title="Contact", slug="contact", thanks=block("p", "Thank you.")))
    Question.objects.create(page=form, sort_order=0, label="Name", field_type="singleline")
    Question.objects.create(page=form, sort_order=1, label="Message", field_type="multiline")


def main():
    admin, user, hostname = sys.argv[1:]
    call_command("migrate", verbosity=1)
    with transaction.atomic():
        accounts(Path(admin).read_text().strip(), Path(user).read_text().strip())
        pages(hostname)
    call_command("collectstatic", interactive=False, clear=True, verbosity=1)
    print("filled")


main()

"""Puts a home page in place of Wagtail's greeting."""

from django.db import migrations


def make_home_page(apps, _):
    ContentType = apps.get_model("contenttypes.ContentType")
    Page = apps.get_model("wagtailcore.Page")
    Site = apps.get_model("wagtailcore.Site")
    HomePage = apps.get_model("home.HomePage")
    # Historical models have no methods of the tree, so its fields are written here.
    root = Page.objects.get(depth=1)
    Page.objects.filter(depth=2).delete()
    kind, _ = ContentType.objects.get_or_create(model="homepage", app_label="home")
    home = HomePage.objects.create(
        title="Welcome",
        draft_title="Welcome",
        slug="home",
        content_type=kind,
        path="00010001",
        depth=2,
        numchild=0,
        url_path="/home/",
        locale_id=root.locale_id,
        body='<p data-block-key="n3w5t">This site is new.</p>',
    )
    root.numchild = 1
    root.save()
    Site.objects.create(hostname="localhost", root_page=home, is_default_site=True)


class Migration(migrations.Migration):

    dependencies = [
        ("home", "0001_initial"),
    ]

    operations = [
        migrations.RunPython(make_home_page, migrations.RunPython.noop),
    ]

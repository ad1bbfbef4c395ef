"""The package with a real Django, and edges that only record what they get.

    python3 -m unittest discover --start-directory integrations/django/tests
"""

import io
import json
import sys
import tempfile
import threading
import traceback
import types
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from unittest import mock

import example

example.configure(":memory:", {})
example.make_tables()

from django.conf import settings  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.checks import run_checks  # noqa: E402
from django.core.management import BaseCommand, CommandError, call_command  # noqa: E402
from django.db import transaction  # noqa: E402
from django.test import Client, override_settings  # noqa: E402
from django.utils.functional import SimpleLazyObject  # noqa: E402
from news.models import Article, Code, Label, Report  # noqa: E402

import petasos_django  # noqa: E402
from petasos_django import edge, names, purges, retries, webhook  # noqa: E402


class Recorder:
    """A server that keeps each request, and answers all with one status."""

    def __init__(self, status=200, fields=()):
        recorder = self
        self.requests = []

        class Handler(BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                recorder.requests.append((self.command, self.path, list(self.headers.items()), self.rfile.read(length).decode()))
                self.send_response(status)
                for name, value in fields:
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_PURGE = do_PURGEKEYS = do_GET = answer

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def calls(self):
        """The JSON of all calls so far; forgets them."""
        calls = [json.loads(body) for _, _, _, body in self.requests]
        self.requests.clear()
        return calls

    def tags(self):
        """All tags that were purged so far; forgets them."""
        return sorted(tag for call in self.calls() for tag in call["selectors"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def page(path, client=None, **fields):
    response = (client or Client()).get(path, **fields)
    return response.get("Cache-Control"), response.get("Surrogate-Key"), response


def ids(**values):
    """The ids of the checks of settings that fail with these values of PETASOS."""
    with override_settings(PETASOS=values):
        return sorted({found.id for found in run_checks(tags=["petasos"])})


PUBLIC = "public, max-age=0, s-maxage=300, stale-if-error=86400"
PRIVATE = "private, no-store"


class Pages(unittest.TestCase):
    def test_page_has_the_tags_of_what_it_shows(self):
        self.assertEqual(page("/article/7/")[:2], (PUBLIC, "news.article:7"))
        self.assertEqual(page("/")[:2], (PUBLIC, "news.article"))
        self.assertEqual(page("/paginated/")[:2], (PUBLIC, "news.article news.article:7"))
        self.assertEqual(page("/tagged/")[:2], (PUBLIC, "menu news.article:7"))

    def test_missing_page_has_its_own_lifetime(self):
        self.assertEqual(page("/nothing/")[:2], (PUBLIC.replace("300", "60"), "404"))

    def test_page_for_one_visitor_is_private(self):
        alice = Client()
        alice.force_login(User.objects.get_or_create(username="alice")[0])
        for path, client, fields in [
            ("/", alice, {}),
            ("/login/", None, {}),
            ("/form/", None, {}),
            ("/personal/", None, {}),
            ("/article/7/", None, {"HTTP_AUTHORIZATION": "Bearer x"}),
            ("/article/7/", None, {"HTTP_COOKIE": "csrftoken=x"}),
            ("/article/7/", None, {"HTTP_COOKIE": "a=b; messages=x"}),
            ("/article/7/", None, {"HTTP_COOKIE": "django_language=de"}),
        ]:
            self.assertEqual(page(path, client, **fields)[:2], (PRIVATE, None), (path, fields))
        self.assertEqual(page("/article/7/", None, HTTP_COOKIE="_ga=1")[0], PUBLIC)

    def test_what_a_view_states_counts(self):
        self.assertEqual(page("/stated/")[:2], ("public, max-age=60", "stated"))
        self.assertEqual(page("/limited/")[:2], ("max-age=60", None))
        self.assertEqual(page("/limited/", None, HTTP_COOKIE="sessionid=x")[0], "max-age=60, private")
        self.assertEqual(page("/stated/", None, HTTP_COOKIE=f"csrftoken={'a' * 32}")[:2], ("public, max-age=60", "stated"))

    def test_no_statement_shares_a_page_of_one_visitor(self):
        alice = Client()
        alice.force_login(User.objects.get_or_create(username="alice")[0])
        self.assertIn("s-maxage=60", page("/claimed/", alice)[0])
        self.assertIn("s-maxage=60", page("/claimed/", HTTP_AUTHORIZATION="Bearer x")[0])
        self.assertEqual(page("/claimed/?revalidated")[:2], ("no-cache, public, s-maxage=60", None))
        for query, client in [("personal", None), ("revalidated&personal", None), ("cookie", None), ("user", alice)]:
            self.assertEqual(page(f"/claimed/?{query}", client)[:2], (PRIVATE, None), query)
        with override_settings(PETASOS={"EXCLUDE_PATHS": ["/claimed/*"]}):
            self.assertEqual(page("/claimed/")[:2], (PRIVATE, None))

    def test_page_from_the_page_cache_is_private_because_its_tags_are_unknown(self):
        self.assertEqual(page("/kept/")[1], "kept")
        control, tags, _ = page("/kept/")
        self.assertEqual((tags, "private" in control), (None, True))

    def test_too_many_tags_become_those_of_the_models(self):
        self.assertEqual(page("/many/")[:2], (PUBLIC, "news.article own.tag:1"))
        with override_settings(PETASOS={"TAG_BYTES_MAX": 10}):
            self.assertEqual(page("/many/")[:2], (PRIVATE, None))

    def test_settings_change_lifetimes_and_exclude_pages(self):
        with override_settings(PETASOS={"TTL": 90, "TTL_BROWSER": 5, "STALE_ON_ERROR": 7}):
            self.assertEqual(page("/")[0], "public, max-age=5, s-maxage=90, stale-if-error=7")
        with override_settings(PETASOS={"TTL": 0}):
            self.assertEqual(page("/")[:2], (None, None))
        with override_settings(PETASOS={"EXCLUDE_PATHS": ["/article/*"], "PRIVATE_COOKIES": ["shop_*"], "DEBUG": True}):
            control, tags, response = page("/article/7/")
            self.assertEqual((control, tags), (PRIVATE, None))
            self.assertEqual(response["X-Petasos-Private"], "the path is one of EXCLUDE_PATHS")
            self.assertEqual(page("/", None, HTTP_COOKIE="shop_cart=x")[0], PRIVATE)

    def test_user_of_another_authentication_is_noticed(self):
        def other(get_response):
            def middleware(request):
                request.user = types.SimpleNamespace(is_authenticated=True, username="bob")
                return get_response(request)

            return middleware

        with mock.patch.dict(sys.modules, {"other": types.SimpleNamespace(other=other)}):
            with override_settings(MIDDLEWARE=[*settings.MIDDLEWARE, "other.other"]):
                self.assertEqual(page("/")[0], PRIVATE)


class Names(unittest.TestCase):
    def test_object_has_the_tags_of_its_models(self):
        report = Report(pk=9)
        self.assertEqual(names.names_of(report), ["news.report:9", "news.article:9"])
        self.assertEqual(names.changes_of(report), ["news.report:9", "news.article:9", "news.report", "news.article"])
        self.assertEqual(names.names_of(Article.objects.all()), ["news.article"])
        self.assertEqual(names.names_of(Article.objects), ["news.article"])
        self.assertEqual(names.names_of(Code(pk="a b,c|d")), ["news.code:a%20b%2Cc%7Cd"])
        self.assertEqual(names.names_of(Article()), [])

    def test_lazy_user_in_a_context_is_not_loaded(self):
        def load():
            raise AssertionError("loaded")

        context = {"user": SimpleLazyObject(load), "raw": Article.objects.raw("SELECT 1"), "other": [{}, 7], "none": None}
        self.assertEqual(names.names_in(context), {"news.article"})
        self.assertEqual(names.names_in(None), set())

    def test_text_that_is_no_tag_is_refused(self):
        for text in ("", "a b", "a,b", "a|b", "a\nb"):
            self.assertRaises(ValueError, names.names_of, text)
        self.assertRaises(TypeError, names.names_of, 7)


class Changes(unittest.TestCase):
    def test_change_is_purged_after_its_transaction(self):
        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address, "MODELS": ["news"]}):
            article = Article.objects.get(pk=7)
            with transaction.atomic():
                article.save()
                Article.objects.get(pk=8).save()
                self.assertEqual(recorder.requests, [])
            self.assertEqual(len(recorder.requests), 1)
            self.assertEqual(recorder.tags(), ["news.article", "news.article:7", "news.article:8"])
            article.save()
            self.assertEqual(recorder.tags(), ["news.article", "news.article:7"])

    def test_rolled_back_transaction_purges_nothing(self):
        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address, "MODELS": ["news.Article"]}):
            with self.assertRaises(KeyError), transaction.atomic():
                Article.objects.get(pk=7).save()
                raise KeyError
            self.assertEqual(recorder.requests, [])
            Article.objects.get(pk=8).save()
            self.assertIn("news.article:8", recorder.tags())

    def test_relations_and_deletions_are_purged(self):
        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address, "MODELS": ["news"]}):
            label = Label.objects.create(name="x")
            self.assertEqual(recorder.tags(), ["404", "news.label", f"news.label:{label.pk}"])
            Article.objects.get(pk=7).labels.add(label)
            self.assertEqual(recorder.tags(), ["news.article", "news.article:7", "news.label", f"news.label:{label.pk}"])
            key = label.pk
            label.delete()
            self.assertIn(f"news.label:{key}", recorder.tags())

    def test_other_models_purge_nothing(self):
        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address, "MODELS": ["news.Label"]}):
            Article.objects.get(pk=7).save()
            User.objects.get_or_create(username="carol")
            self.assertEqual(recorder.requests, [])

    def test_edge_is_told_that_purges_cover_a_write_unless_one_failed(self):
        def field():
            return Client().post("/article/7/", {"title": "first"}).get("X-Petasos-Purges")

        with Recorder() as recorder:
            values = {"ADMIN": recorder.address, "MODELS": ["news"]}
            for more, expected in [({}, None), ({"COVERS_WRITES": True}, "1"), ({"COVERS_WRITES": True, "ADMIN": ""}, None)]:
                with override_settings(PETASOS={**values, **more}):
                    self.assertEqual(field(), expected, more)
        down = {"ADMIN": "http://127.0.0.1:1", "MODELS": ["news"], "COVERS_WRITES": True}
        with override_settings(PETASOS=down), self.assertLogs("petasos"):
            self.assertIsNone(field())

    def test_unreachable_edge_fails_no_change(self):
        with override_settings(PETASOS={"ADMIN": "http://127.0.0.1:1", "MODELS": ["news"]}):
            with self.assertLogs("petasos", "ERROR") as logs:
                Article.objects.get(pk=7).save()
        self.assertIn("http://127.0.0.1:1", logs.output[0])


class Purges(unittest.TestCase):
    def test_admin_address_gets_calls_with_the_token(self):
        with Recorder() as recorder:
            values = {"ADMIN": [recorder.address], "TOKEN": "s3cret", "SITE": "main", "HOST": "a.test"}
            with override_settings(PETASOS=values):
                self.assertEqual(petasos_django.purge("b", "a"), [])
                self.assertEqual(petasos_django.purge_urls("https://a.test/é"), [])
                self.assertEqual(petasos_django.purge_all(), [])
            self.assertEqual({dict(fields)["Authorization"] for _, _, fields, _ in recorder.requests}, {"Bearer s3cret"})
            self.assertEqual(
                recorder.calls(),
                [
                    {"type": "tag", "selectors": ["a", "b"], "site": "main"},
                    {"type": "uri", "selectors": ["https://a.test/%C3%A9"]},
                    {"type": "all", "site": "main"},
                ],
            )

    def test_visitors_address_gets_purge_requests(self):
        with Recorder() as recorder, tempfile.NamedTemporaryFile("w") as file:
            file.write("from-file\nanother line\n")
            file.flush()
            with override_settings(PETASOS={"EDGE": recorder.address, "TOKEN_FILE": file.name, "HOST": "a.test"}):
                petasos_django.purge("b", "a")
                petasos_django.purge_urls("https://b.test:8080/x?y=1")
                petasos_django.purge_all()
            requests = [(method, target, dict(fields)) for method, target, fields, _ in recorder.requests]
            self.assertEqual([each[:2] for each in requests], [("PURGEKEYS", "/"), ("PURGE", "/x?y=1"), ("PURGE", "/")])
            self.assertEqual([each[2]["Host"] for each in requests], ["a.test", "b.test:8080", "a.test"])
            self.assertEqual(requests[0][2]["xkey-purge"], "a b")
            self.assertEqual(requests[2][2]["Clear-Cache"], "true")
            # The edge reads a long head only after it has seen the token.
            names_sent = [name for name, _ in recorder.requests[0][2]]
            self.assertLess(names_sent.index("Authorization"), names_sent.index("xkey-purge"))
            self.assertEqual(requests[0][2]["Authorization"], "Bearer from-file")

    def test_many_tags_are_split_or_become_everything(self):
        with Recorder() as recorder:
            with override_settings(PETASOS={"EDGE": recorder.address}):
                petasos_django.purge(*(f"tag-number-{number}" for number in range(1000)))
            sent = [dict(fields)["xkey-purge"] for _, _, fields, _ in recorder.requests]
            self.assertTrue(all(len(text) <= edge.TAG_HEAD_BYTES_MAX for text in sent))
            self.assertEqual(len(" ".join(sent).split()), 1000)
            recorder.requests.clear()
            with override_settings(PETASOS={"ADMIN": recorder.address}):
                petasos_django.purge(*(f"t{number}" for number in range(2001)))
            self.assertEqual(recorder.calls(), [{"type": "all"}])

    def test_token_is_not_sent_to_where_an_edge_redirects(self):
        with Recorder() as thief, Recorder(302, [("Location", thief.address + "/purge")]) as recorder:
            with override_settings(PETASOS={"ADMIN": recorder.address, "TOKEN": "s3cret"}), self.assertLogs("petasos"):
                self.assertIn("it answered 302", petasos_django.purge("a")[0])
            self.assertEqual(thief.requests, [])

    def test_line_breaks_are_sent_nowhere(self):
        with Recorder() as recorder, override_settings(PETASOS={"EDGE": recorder.address, "TOKEN": "a\nX: b", "HOST": "h"}):
            with self.assertLogs("petasos"):
                self.assertEqual(len(petasos_django.purge("a")), 1)
            self.assertEqual(recorder.requests, [])

    def test_no_error_has_the_token(self):
        for token in ("s3cret\nX: b", "s3cr\u20act"):
            with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address, "TOKEN": token}):
                with self.assertLogs("petasos") as logs:
                    errors = petasos_django.purge("a")
                self.assertIn("cannot be sent", errors[0])
                self.assertNotIn("s3cr", "".join(errors + logs.output))
                with self.assertRaises(edge.EdgeError) as raised:
                    edge.Edge(recorder.address, True, token).test()
                self.assertNotIn("s3cr", "".join(traceback.format_exception(None, raised.exception, None)))
                self.assertEqual(recorder.requests, [])

    def test_command_purges_what_it_is_told(self):
        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address}):
            run = lambda *words: call_command("petasos_purge", *words, stdout=io.StringIO())  # noqa: E731
            run("https://a.test/", "--tag", "menu", "--model", "news.Article:7", "--model", "news.Label")
            run("--all")
            selectors = [call.get("selectors") for call in recorder.calls()]
            self.assertEqual(selectors, [["https://a.test/"], ["menu", "news.article:7", "news.label"], None])
            for words in ([], ["--all", "--tag", "a"], ["/path"], ["--tag", "a b"], ["--model", "x.Y"], ["--model", "news.Article:z"]):
                self.assertRaises(CommandError, run, *words)
            self.assertEqual(recorder.requests, [])
        with override_settings(PETASOS={}):
            self.assertRaises(CommandError, run, "--all")


class Retries(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        for what in (
            mock.patch.object(purges, "queue", retries.Queue()),
            mock.patch.object(purges.time, "monotonic", lambda: self.now),
        ):
            what.start()
            self.addCleanup(what.stop)

    def fail(self, address, *tags, **more):
        """Purges tags from an edge that is down."""
        with override_settings(PETASOS={"ADMIN": address, **more}), self.assertLogs("petasos", "ERROR"):
            self.assertEqual(len(petasos_django.purge(*tags)), 1)

    def visit_after(self, seconds):
        self.now += seconds
        Client().get("/article/7/")

    def test_failed_purges_are_sent_after_a_later_request(self):
        with Recorder() as recorder, Recorder(503) as broken:
            self.fail(recorder.address.replace("127.0.0.1", "127.0.0.2"), "gone")
            with mock.patch.object(edge, "request", side_effect=OSError("down")):
                self.fail(recorder.address, "b", "a")
                self.fail(recorder.address, "c")
            with override_settings(PETASOS={"ADMIN": [recorder.address, broken.address]}):
                self.visit_after(29)
                self.assertEqual(recorder.requests, [])
                with self.assertLogs("petasos", "WARNING") as logs:
                    self.visit_after(1)
                self.assertIn("were sent", logs.output[0])
                self.assertEqual(recorder.tags(), ["a", "b", "c"])
                # The address that is not in the settings any more is forgotten.
                self.visit_after(10_000)
                self.assertEqual((recorder.requests, broken.requests), ([], []))

    def test_pause_grows_until_the_edge_answers_a_purge(self):
        with Recorder() as recorder:
            settings_ = {"ADMIN": recorder.address}
            with override_settings(PETASOS=settings_):
                with mock.patch.object(edge, "request", side_effect=OSError("down")) as tries:
                    self.fail(recorder.address, "a")
                    with self.assertLogs("petasos"):
                        for seconds, expected in [(29, 1), (1, 2), (59, 2), (1, 3), (119, 3), (1, 4), (239, 4), (1, 5), (480, 6), (599, 6), (1, 7)]:
                            self.visit_after(seconds)
                            self.assertEqual(tries.call_count, expected, seconds)
                with self.assertLogs("petasos"):
                    self.assertEqual(petasos_django.purge("b"), [])
                    self.assertEqual(recorder.tags(), ["b"])
                    self.visit_after(0)
                self.assertEqual(recorder.tags(), ["a"])

    def test_purge_of_everything_includes_what_waits(self):
        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address}):
            with mock.patch.object(edge, "request", side_effect=OSError("down")):
                self.fail(recorder.address, "a")
            petasos_django.purge_all()
            self.assertEqual(recorder.calls(), [{"type": "all"}])
            self.visit_after(10_000)
            self.assertEqual(recorder.requests, [])

    def test_what_waits_is_bounded(self):
        waiting = retries.Queue()
        for number in range(3):
            purge = retries.Purge(tags=(f"{number}-{each}" for each in range(1000)))
            waiting.add("a", purge, 0.0)
        taken = waiting.take(100.0)["a"]
        self.assertEqual((taken.tags, taken.urls, taken.everything), (set(), set(), True))
        taken.add(retries.Purge(tags=["x"], urls=["y"]))
        self.assertEqual((taken.tags, taken.urls), (set(), set()))

    def test_one_request_sends_while_others_go_on(self):
        waiting = retries.Queue()
        waiting.add("a", retries.Purge(tags=["x"]), 0.0)
        self.assertEqual(list(waiting.take(30.0)), ["a"])
        self.assertTrue(waiting.waits_for(["a"]) and not waiting.waits_for(["b"]))
        waiting.add("b", retries.Purge(tags=["y"]), 30.0)
        self.assertEqual(waiting.take(10_000.0), {})
        waiting.finish()
        self.assertFalse(waiting.waits_for(["a"]))
        self.assertEqual(list(waiting.take(10_000.0)), ["b"])

    def test_network_is_told_once_more_after_the_edge(self):
        with Recorder() as recorder, Recorder() as network:
            values = {"ADMIN": recorder.address, "WEBHOOK": {"URL": network.address, "BODY": '{"u": {urls}}', "BODY_ALL": '{"all": 1}'}}
            with override_settings(PETASOS=values):
                with mock.patch.object(edge, "request", side_effect=OSError("down")), self.assertLogs("petasos"):
                    petasos_django.purge("a")
                    petasos_django.purge_urls("https://a.test/")
                # A tag has no place in the content, so it becomes a purge of everything.
                self.assertEqual(network.calls(), [{"all": 1}, {"u": ["https://a.test/"]}])
                with self.assertLogs("petasos"):
                    self.visit_after(30)
                self.assertEqual(network.calls(), [{"all": 1}, {"u": ["https://a.test/"]}])
                self.assertEqual([call["type"] for call in recorder.calls()], ["tag", "uri"])

    def test_failed_webhook_is_tried_again_without_the_edge(self):
        with Recorder() as recorder, Recorder(503) as network:
            values = {"ADMIN": recorder.address, "WEBHOOK": {"URL": network.address}}
            with override_settings(PETASOS=values), self.assertLogs("petasos"):
                petasos_django.purge("a")
                self.assertEqual((recorder.tags(), len(network.calls())), (["a"], 1))
                self.assertFalse(purges.is_waiting())
                self.visit_after(30)
                self.assertEqual((recorder.requests, len(network.calls())), ([], 1))

    def test_edge_is_not_told_of_covered_writes_until_it_has_all_purges(self):
        def field():
            return Client().post("/article/7/", {"title": "first"}).get("X-Petasos-Purges")

        with Recorder() as recorder, override_settings(PETASOS={"ADMIN": recorder.address, "COVERS_WRITES": True}):
            self.assertEqual(field(), "1")
            with mock.patch.object(edge, "request", side_effect=OSError("down")):
                self.fail(recorder.address, "a", COVERS_WRITES=True)
            self.assertIsNone(field())
            with self.assertLogs("petasos"):
                self.visit_after(30)
            self.assertEqual(field(), "1")


class Webhook(unittest.TestCase):
    def test_network_is_told_after_the_edge(self):
        with Recorder() as edge_server, Recorder() as network:
            hook = {"URL": f"{network.address}/zone?x=1", "HEADERS": {"X-Key": "k3y"}}
            with override_settings(PETASOS={"ADMIN": edge_server.address, "WEBHOOK": hook}):
                petasos_django.purge('a"{urls}')
                petasos_django.purge_urls("https://a.test/")
                petasos_django.purge_all()
            method, target, fields, _ = network.requests[0]
            self.assertEqual((method, target, dict(fields)["X-Key"]), ("POST", "/zone?x=1", "k3y"))
            self.assertEqual(
                network.calls(),
                [
                    {"tags": ['a"{urls}'], "urls": [], "everything": False},
                    {"tags": [], "urls": ["https://a.test/"], "everything": False},
                    {"tags": [], "urls": [], "everything": True},
                ],
            )

    def test_template_without_urls_gets_the_one_for_everything(self):
        with Recorder() as network:
            hook = {"URL": network.address, "BODY": '{"files": {urls}}', "BODY_ALL": '{"purge_everything": true}'}
            with override_settings(PETASOS={"WEBHOOK": hook}):
                webhook.send(tags=["a"])
                webhook.send(urls=["u"])
            self.assertEqual(network.calls(), [{"purge_everything": True}, {"files": ["u"]}])
            del hook["BODY_ALL"]
            self.assertIn("petasos.E005", ids(WEBHOOK=hook))
            with override_settings(PETASOS={"WEBHOOK": hook}):
                webhook.send(tags=["a"])
            self.assertEqual(network.requests, [])

    def test_no_content_has_only_empty_lists(self):
        for template, what, expected in [
            ('{"tags": {tags}}', {"urls": ["u"]}, {"all": 1}),
            ('{"tags": {tags}}', {"tags": ["a"]}, {"tags": ["a"]}),
            ('{"files": {urls}, "all": {everything}}', {"tags": ["a"]}, {"files": [], "all": True}),
        ]:
            with Recorder() as network:
                hook = {"URL": network.address, "BODY": template}
                if "everything" not in template:
                    hook["BODY_ALL"] = '{"all": 1}'
                with override_settings(PETASOS={"WEBHOOK": hook}):
                    self.assertIsNone(webhook.send(**what))
                self.assertEqual(network.calls(), [expected])

    def test_no_secret_leaves_for_another_host_or_the_log(self):
        with Recorder() as thief, Recorder(307, [("Location", thief.address)]) as network:
            for value in ("s3cret", "s3cret\nX: y", "s3cr\u20act"):
                hook = {"URL": network.address, "HEADERS": {"Authorization": value}}
                with override_settings(PETASOS={"WEBHOOK": hook}):
                    error = webhook.send(everything=True)
                self.assertNotIn("s3cr", error)
            self.assertEqual((thief.requests, len(network.requests)), ([], 1))


class Checks(unittest.TestCase):
    def test_good_settings_pass(self):
        self.assertEqual(ids(ADMIN="http://127.0.0.1:8081", MODELS=["news"]), [])

    def test_each_mistake_is_named(self):
        good = {"ADMIN": "http://127.0.0.1:8081", "MODELS": ["news"]}
        for wrong, expected in [
            ({"TLL": 5}, "petasos.E001"),
            ({"TTL": "5"}, "petasos.E002"),
            ({"TTL": True}, "petasos.E002"),
            ({"TTL": -1}, "petasos.E002"),
            ({"MODELS": [7]}, "petasos.E002"),
            ({"ADMIN": "127.0.0.1:8081"}, "petasos.E003"),
            ({"ADMIN": "http://127.0.0.1:port"}, "petasos.E003"),
            ({"MODELS": ["news.Story"]}, "petasos.E004"),
            ({"WEBHOOK": {"URL": "ftp://x"}}, "petasos.E005"),
            ({"WEBHOOK": {"url": "https://x"}}, "petasos.E005"),
            ({"WEBHOOK": {"URL": "https://x", "HEADERS": {"X-Key": 7}}}, "petasos.E005"),
            ({"WEBHOOK": {"URL": "https://x:y"}}, "petasos.E005"),
            ({"ADMIN": ""}, "petasos.W010"),
            ({"TOKEN_FILE": "/nowhere"}, "petasos.W014"),
            ({"ADMIN": "", "EDGE": "http://10.0.0.2"}, "petasos.W011"),
            ({"ADMIN": "", "EDGE": "http://10.0.0.2", "TOKEN": "x"}, "petasos.W012"),
            ({"MODELS": []}, "petasos.W013"),
        ]:
            self.assertIn(expected, ids(**{**good, **wrong}), wrong)
        with override_settings(PETASOS=["x"]):
            self.assertIn("petasos.E001", [found.id for found in run_checks(tags=["petasos"])])

    def test_settings_of_the_site_are_checked(self):
        good = {"ADMIN": "http://127.0.0.1:8081", "MODELS": ["news"]}
        for wrong, expected in [
            ({"MIDDLEWARE": []}, "petasos.W020"),
            ({"MIDDLEWARE": settings.MIDDLEWARE[::-1]}, "petasos.W021"),
            ({"SESSION_SAVE_EVERY_REQUEST": True}, "petasos.W022"),
            ({"CSRF_USE_SESSIONS": True}, "petasos.W023"),
            ({"MIDDLEWARE": [*settings.MIDDLEWARE, "django.middleware.cache.FetchFromCacheMiddleware"]}, "petasos.W024"),
            ({"SESSION_COOKIE_NAME": "sid"}, "petasos.W025"),
        ]:
            with override_settings(**wrong):
                self.assertEqual(ids(**good), [expected], wrong)

    def test_commands_run_without_token_file_or_middleware(self):
        class Any(BaseCommand):
            requires_system_checks = "__all__"

            def handle(self, *_, **__):
                return "done"

        values = {"ADMIN": "http://127.0.0.1:8081", "MODELS": ["news"], "TOKEN_FILE": "/nowhere"}
        for order in ([], settings.MIDDLEWARE[::-1]):
            with override_settings(PETASOS=values, MIDDLEWARE=order):
                output = call_command(Any(), skip_checks=False, stdout=io.StringIO(), stderr=io.StringIO())
            self.assertEqual(output, "done")

    def test_deployment_checks_reach_edges_and_pages(self):
        def found(**values):
            with override_settings(PETASOS=values):
                return {check.id: check for check in run_checks(tags=["petasos"], include_deployment_checks=True)}

        with Recorder() as recorder:
            self.assertEqual(found(ADMIN=recorder.address, MODELS=["news"]), {})
            self.assertEqual(recorder.tags(), ["petasos-test"])
        bad = found(ADMIN="http://127.0.0.1:1", MODELS=["news"], CHECK_PATHS=["/form/", "/personal/"])
        self.assertEqual(set(bad), {"petasos.E030", "petasos.W032", "petasos.W033"})
        self.assertIn("csrf_token", bad["petasos.W032"].hint)
        with Recorder(403) as recorder:
            self.assertIn("it answered 403", found(ADMIN=recorder.address, MODELS=["news"])["petasos.E030"].msg)


class Wagtail(unittest.TestCase):
    def test_backend_purges_urls_with_a_base_class_of_each_version(self):
        def old():
            return type("BaseBackend", (), {})

        def new():
            return type("BaseBackend", (), {"__init__": lambda self, params: setattr(self, "hostnames", ["*"])})

        for base in (old(), new()):
            package = "wagtail.contrib.frontend_cache.backends"
            modules = {package.rsplit(".", depth)[0]: types.ModuleType("x") for depth in range(1, 4)}
            modules[package] = types.SimpleNamespace(BaseBackend=base)
            with mock.patch.dict(sys.modules, modules), Recorder() as recorder:
                sys.modules.pop("petasos_django.wagtail", None)
                from petasos_django.wagtail import PetasosBackend

                with override_settings(PETASOS={"ADMIN": recorder.address}):
                    backend = PetasosBackend({})
                    backend.purge("https://a.test/b/")
                    backend.purge_batch(["https://a.test/d/", "https://a.test/c/"])
                calls = [call["selectors"] for call in recorder.calls()]
                self.assertEqual(calls, [["https://a.test/b/"], ["https://a.test/c/", "https://a.test/d/"]])
                sys.modules.pop("petasos_django.wagtail", None)


if __name__ == "__main__":
    unittest.main()

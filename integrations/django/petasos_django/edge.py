"""A Petasos in front of the site: sends purges to it.

The address is one of two kinds. The admin address has a JSON API. The visitors' address receives
purge requests, for sites whose Django runs on another machine than the edge.

Invariant: no redirect is followed, so the token reaches no other host. Each wait for the network
has a limit, and so has the length of a response that is read. No error contains the token. This
module does not use Django.
"""

import http.client
import json
from urllib.parse import urlsplit

RESPONSE_BYTES_MAX = 10_000
# Selectors of one call of the JSON API, and bytes of tags in one purge request.
SELECTORS_MAX = 4096
TAG_HEAD_BYTES_MAX = 6000
# A tag that no page carries: its purge shows whether purges are accepted.
TEST_TAG = "petasos-test"


class EdgeError(Exception):
    """A purge that failed: the address and the cause."""


def is_address(text):
    """Whether `text` is an address such as `http://127.0.0.1:8081`."""
    try:
        url = urlsplit(text)
        has_extra = url.path not in ("", "/") or url.query or url.fragment or url.username
        return url.scheme in ("http", "https") and bool(url.hostname) and not has_extra and url.port != 0
    except ValueError:
        return False


class Edge:
    """One address of an edge.

    `site` limits purges by tag to one site of the edge (JSON API only). `host` is the public name
    of the site; `timeout` is in seconds, for each wait.
    """

    def __init__(self, address, is_admin, token="", site="", host="", timeout=2.0):
        self.address = address.rstrip("/")
        self.is_admin = is_admin
        self.token = token
        self.site = site
        self.host = host
        self.timeout = timeout

    def purge_tags(self, tags):
        """Purges all pages that carry one of the tags. Raises `EdgeError`."""
        for part in _parts(sorted(tags), self.is_admin):
            if self.is_admin:
                self._call({"type": "tag", "selectors": part, **self._scope()})
            else:
                self._ask("PURGEKEYS", "/", {**self._name(), "xkey-purge": " ".join(part)})

    def purge_urls(self, urls):
        """Purges these pages. Raises `EdgeError`."""
        urls = sorted(urls)
        if self.is_admin:
            for begin in range(0, len(urls), SELECTORS_MAX):
                self._call({"type": "uri", "selectors": urls[begin : begin + SELECTORS_MAX]})
            return
        for text in urls:
            url = urlsplit(text)
            target = (url.path or "/") + (f"?{url.query}" if url.query else "")
            self._ask("PURGE", target, {"Host": url.netloc.rpartition("@")[2]})

    def purge_all(self):
        """Purges the whole site: `site` or `host`, or everything if neither is known."""
        if not self.is_admin:
            self._ask("PURGE", "/", {**self._name(), "Clear-Cache": "true"})
        elif self.host and not self.site:
            self._call({"type": "host", "selectors": [self.host]})
        else:
            self._call({"type": "all", **self._scope()})

    def test(self):
        """Sends a purge that matches no page. Raises `EdgeError` if the edge does not accept it."""
        self.purge_tags([TEST_TAG])

    def _scope(self):
        return {"site": self.site} if self.site else {}

    def _name(self):
        return {"Host": self.host} if self.host else {}

    def _call(self, call):
        body = json.dumps(call).encode()
        self._ask("POST", "/purge", {"Content-Type": "application/json"}, body)

    def _ask(self, method, target, headers, body=None):
        # The token comes first: the edge reads a long head only after it has seen the token.
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent.update(headers)
        try:
            status, text = request(self.address, method, target, sent, body, self.timeout)
        except (OSError, http.client.HTTPException) as error:
            raise EdgeError(f"{self.address}: {error or type(error).__name__}") from error
        except ValueError:
            # The text of these errors may quote the token, so it is not even their cause.
            what = "the token or another part cannot be sent" if is_address(self.address) else "this is no address"
            raise EdgeError(f"{self.address}: {what}") from None
        if status != 200:
            raise EdgeError(f"{self.address}: it answered {status} {text[:200].strip()}")


def request(address, method, target, headers, body, timeout):
    """Sends one request and returns the status and the beginning of the content.

    Raises `OSError`, `http.client.HTTPException` or `ValueError`. The last one is also the error for
    a line break in any part of the head.
    """
    if not is_address(address):
        raise ValueError(f"{address!r} is no address such as http://127.0.0.1:8081")
    url = urlsplit(address)
    make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = make(url.hostname, url.port, timeout=timeout)
    try:
        connection.request(method, target, body, {**headers, "Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read(RESPONSE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        connection.close()


def _parts(tags, is_admin):
    """Splits tags into lists that fit into one request."""
    part, size = [], 0
    for tag in tags:
        size += len(tag) + 1
        if part and (len(part) == SELECTORS_MAX or (not is_admin and size > TAG_HEAD_BYTES_MAX)):
            yield part
            part, size = [], len(tag) + 1
        part.append(tag)
    if part:
        yield part

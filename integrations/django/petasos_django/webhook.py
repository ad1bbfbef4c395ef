"""Tells a content delivery network in front of Petasos of each purge, by one request.

Invariant: the request goes to the host of the setting and nowhere else, because no redirect is
followed. Its errors contain no header field, so no secret reaches the log. Placeholders are
replaced by JSON, so no tag or URL can change the form of the content.
"""

import http.client
import json
import re
from urllib.parse import urlsplit

from . import conf
from .edge import request

BODY = '{"tags": {tags}, "urls": {urls}, "everything": {everything}}'
KEYS = {"URL": str, "METHOD": str, "HEADERS": dict, "BODY": str, "BODY_ALL": str}


def mistakes(webhook):
    """What is wrong with the setting, as texts."""
    wrong = [f"{key} is unknown" for key in webhook if key not in KEYS]
    wrong += [f"{key} has a wrong type" for key, kind in KEYS.items() if not isinstance(webhook.get(key, kind()), kind)]
    url = webhook.get("URL")
    if isinstance(url, str):
        try:
            parts = urlsplit(url)
            is_good = parts.scheme in ("http", "https") and parts.hostname and not parts.username
            # Reading the port raises for one that is no number.
            is_good = is_good and parts.port != 0
        except ValueError:
            is_good = False
        if not is_good:
            wrong.append("URL is no http or https address")
    else:
        wrong.append("URL is missing")
    headers = webhook.get("HEADERS")
    if isinstance(headers, dict) and not all(isinstance(text, str) for pair in headers.items() for text in pair):
        wrong.append("HEADERS has a name or value that is no text")
    body = webhook.get("BODY", BODY)
    if isinstance(body, str) and "{everything}" not in body and "BODY_ALL" not in webhook:
        wrong.append("BODY_ALL is missing: BODY cannot say that everything is purged")
    if not re.fullmatch("[A-Z]{3,10}", str(webhook.get("METHOD", "POST"))):
        wrong.append("METHOD is no method such as POST")
    return wrong


def send(tags=(), urls=(), everything=False):
    """Sends the request for one purge. Returns an error as a text, or None."""
    webhook = conf.current().WEBHOOK
    if not webhook or mistakes(webhook):
        return None
    body = _body(webhook, list(tags), list(urls), everything)
    url = urlsplit(webhook["URL"])
    address = f"{url.scheme}://{url.netloc}"
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    headers = {"Content-Type": "application/json", **webhook.get("HEADERS", {})}
    try:
        status, _ = request(
            address, webhook.get("METHOD", "POST"), target, headers, body.encode(), conf.current().TIMEOUT
        )
    except (OSError, http.client.HTTPException) as error:
        return f"webhook {url.hostname}: {error or type(error).__name__}"
    except ValueError:
        # The text of these errors may quote the value of a header field.
        return f"webhook {url.hostname}: a header field cannot be sent"
    return None if 200 <= status < 300 else f"webhook {url.hostname}: it answered {status}"


def _body(webhook, tags, urls, everything):
    """The content for this purge."""
    template = webhook.get("BODY", BODY)
    # Empty lists would purge nothing, although pages have changed.
    everything = everything or not ((tags and "{tags}" in template) or (urls and "{urls}" in template))
    if everything:
        template = webhook.get("BODY_ALL", template)
    values = {"{tags}": tags, "{urls}": urls, "{everything}": everything}
    # One pass, so that a tag with the text of a placeholder stays as it is.
    return re.sub(r"\{(?:tags|urls|everything)\}", lambda found: json.dumps(values[found[0]]), template)

"""A shop whose database has two connections. A request that finds both in use gets 500, as in many
applications under load. Each response is printed with its time, because a load must end soon after
the first failures.
"""

import threading
import time

from flask import Flask, Response, abort, request

# The time that a page needs its connection for.
PAGE_SECONDS = 0.02
NAMES = ["bread", "plums", "lamps"]

app = Flask(__name__)
connections = threading.Semaphore(2)


@app.after_request
def note(response):
    print(f'"{request.method} {request.path} HTTP/1.1" {response.status_code} {time.time():.3f}', flush=True)
    return response


@app.get("/robots.txt")
def robots():
    return Response("User-agent: *\nDisallow:\n", mimetype="text/plain")


@app.get("/")
@app.get("/goods/<name>")
def page(name=None):
    if not connections.acquire(blocking=False):
        abort(500)
    try:
        time.sleep(PAGE_SECONDS)
    finally:
        connections.release()
    links = "".join(f'<li><a href="/goods/{other}">{other}</a>' for other in NAMES)
    content = f"<!doctype html><title>{name or 'Shop'}</title><ul>{links}</ul>"
    return Response(content, headers={"Cache-Control": "public, max-age=0, s-maxage=600"}, mimetype="text/html")

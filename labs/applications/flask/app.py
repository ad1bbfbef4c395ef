"""A shop window in Flask, with a session for everybody: each response sets the cookie, those of files too."""

import secrets

from flask import Flask, Response, render_template, session

app = Flask(__name__)
app.secret_key = "{{secret_key}}"
GOODS = ["bread", "plums", "letters", "lamps", "boats", "maps", "clocks", "kites", "bells", "drums"]


@app.before_request
def know_the_visitor():
    """Gives each visitor a number and renews the session, as many applications do before each request."""
    session.permanent = True
    session.setdefault("visitor", secrets.token_hex(8))
    session.setdefault("csrf_token", secrets.token_hex(16))


@app.get("/robots.txt")
def robots():
    return Response("User-agent: *\nDisallow:\n", mimetype="text/plain")


@app.get("/")
def front():
    return render_template("page.html", goods=GOODS, name=None)


@app.get("/goods/<name>")
def one(name):
    return render_template("page.html", goods=GOODS, name=name)

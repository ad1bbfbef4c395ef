"""A shop in Flask that gives every visitor a session. Each response sets the cookie, also those of
files.
"""

import secrets

from flask import Flask, Response, render_template, session

app = Flask(__name__)
app.secret_key = "{{secret_key}}"
GOODS = ["bread", "plums", "letters", "lamps", "boats", "maps", "clocks", "kites", "bells", "drums"]


@app.before_request
def know_the_visitor():
    """Assigns an id to each visitor and renews the session, as many applications do in each
    request.
    """
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

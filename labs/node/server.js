// A small content system in Node with Express: public pages, a log-in, an editor's form, a call in
// JSON and a stream of events. It tells Petasos what may be shared, and purges what it changes.

const express = require("express");
const session = require("express-session");

const { ADDRESS, ADMIN, PASSWORD, SECRET } = process.env;
const articles = new Map([["bread", "Bread"], ["plums", "Plums"], ["lamps", "Lamps"]]);

const app = express();
// Petasos is the only proxy in front, and connects from this machine.
app.set("trust proxy", "loopback");
// The log shows what a visit of the site requests.
app.use((request, response, next) => {
  const line = `"${request.method} ${request.originalUrl} HTTP/1.1"`;
  response.on("finish", () => console.log(`${line} ${response.statusCode}`));
  next();
});
// `rolling` sends the cookie with every response to a visitor with a session, files included.
const cookie = { secure: "auto" };
app.use(session({ secret: SECRET, resave: false, saveUninitialized: false, rolling: true, cookie }));
app.use("/assets", express.static(`${__dirname}/assets`, { immutable: true, maxAge: "1y" }));
app.use(express.urlencoded({ extended: false }));

// A page with tags may be shared by anonymous visitors for an hour; browsers ask each time.
function page(request, response, tags, title, content) {
  const user = request.session.user;
  const isPublic = !user && tags;
  response.set("Cache-Control", isPublic ? "public, max-age=0, s-maxage=3600" : "private, no-store");
  if (isPublic) response.set("Surrogate-Key", tags);
  const place = user ? `<p id="user">${user}</p>` : `<a href="/login">Log in</a>`;
  response.send(`<!doctype html><html lang="en"><meta charset="utf-8"><title>${title}</title>
<link rel="icon" href="/assets/logo.1f3a.svg"><link rel="stylesheet" href="/assets/style.9c2e.css">
<h1>${title}</h1>${content}${place}<script src="/assets/script.77b0.js"></script></html>`);
}

// Removes all pages with one of these tags from Petasos.
async function purge(tags) {
  const call = JSON.stringify({ type: "tag", selectors: tags });
  const answer = await fetch(`http://${ADMIN}/purge`, { method: "POST", body: call });
  if (!answer.ok) console.error(`Petasos answers ${answer.status} to a purge of ${tags}`);
}

app.get("/", (request, response) => {
  const items = [...articles].map(([name, title]) => `<li><a href="/articles/${name}">${title}</a>`);
  page(request, response, "articles", "Articles", `<ul>${items.join("")}</ul>`);
});

app.get("/articles/:name", (request, response, next) => {
  const title = articles.get(request.params.name);
  if (!title) return next();
  const form = request.session.user
    ? `<form method="post"><input name="title" value="${title}"><button>Save</button></form>` : "";
  page(request, response, `article-${request.params.name}`, title, form);
});

app.post("/articles/:name", async (request, response) => {
  if (!request.session.user) return response.sendStatus(403);
  const title = String(request.body.title).replace(/[<&"]/g, "");
  articles.set(request.params.name, title);
  // The editor must see the change at once, so the response waits for the purge.
  await purge([`article-${request.params.name}`, "articles"]);
  response.redirect(303, `/articles/${request.params.name}`);
});

app.get("/login", (request, response) => {
  page(request, response, null, "Log in", `<form method="post"><input id="name" name="name">
<input id="password" name="password" type="password"><button>Log in</button></form>`);
});

app.post("/login", (request, response) => {
  if (request.body.password !== PASSWORD) return response.status(403).send("Wrong password.");
  request.session.user = String(request.body.name).replace(/[<&"]/g, "");
  response.redirect(303, "/");
});

app.get("/api/visitor", (request, response) => {
  const { ip, protocol, session } = request;
  response.set("Cache-Control", "no-store").json({ user: session.user ?? null, ip, protocol });
});

app.get("/events", (request, response) => {
  response.set({ "Cache-Control": "no-store", "Content-Type": "text/event-stream" });
  response.write("data: open\n\n");
});

const [host, port] = ADDRESS.split(":");
app.listen(Number(port), host);

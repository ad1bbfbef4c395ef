-- The tables of Mission Bicycles. Times are seconds since 1970-01-01 UTC, money is in cents, weights are in
-- grams, a path is the internal one ("node/12"); url_alias says how visitors see it.

CREATE TABLE stamp (version TEXT NOT NULL, seed INTEGER NOT NULL);

CREATE TABLE variable (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE system (name TEXT PRIMARY KEY, weight INTEGER NOT NULL, status INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE users (
  uid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, mail TEXT NOT NULL, pass TEXT NOT NULL,
  status INTEGER NOT NULL, created INTEGER NOT NULL, access INTEGER NOT NULL, town TEXT NOT NULL
);
CREATE TABLE role (rid INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE users_roles (uid INTEGER NOT NULL, rid INTEGER NOT NULL, PRIMARY KEY (uid, rid)) WITHOUT ROWID;
CREATE TABLE permission (rid INTEGER NOT NULL, perm TEXT NOT NULL, PRIMARY KEY (rid, perm)) WITHOUT ROWID;
CREATE TABLE sessions (
  sid TEXT PRIMARY KEY, uid INTEGER NOT NULL, updated INTEGER NOT NULL, data TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE access (mask TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE flood (
  fid INTEGER PRIMARY KEY, event TEXT NOT NULL, identifier TEXT NOT NULL, timestamp INTEGER NOT NULL
);
CREATE INDEX flood_event ON flood (event, identifier, timestamp);

CREATE TABLE node (
  nid INTEGER PRIMARY KEY, type TEXT NOT NULL, title TEXT NOT NULL, uid INTEGER NOT NULL,
  status INTEGER NOT NULL, created INTEGER NOT NULL, changed INTEGER NOT NULL,
  promote INTEGER NOT NULL, comment INTEGER NOT NULL,
  format TEXT NOT NULL, teaser TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX node_type ON node (type, status, created);
CREATE INDEX node_promote ON node (promote, status, created);
CREATE TABLE node_access (
  nid INTEGER NOT NULL, gid INTEGER NOT NULL, realm TEXT NOT NULL, grant_view INTEGER NOT NULL,
  PRIMARY KEY (nid, realm, gid)
) WITHOUT ROWID;
CREATE TABLE node_counter (nid INTEGER PRIMARY KEY, total INTEGER NOT NULL, updated INTEGER NOT NULL);

CREATE TABLE product (
  nid INTEGER PRIMARY KEY, sku TEXT NOT NULL UNIQUE, price INTEGER NOT NULL, list_price INTEGER NOT NULL,
  weight INTEGER NOT NULL, stock INTEGER NOT NULL, sold INTEGER NOT NULL,
  image TEXT NOT NULL, features TEXT NOT NULL
);
CREATE INDEX product_sold ON product (sold);

CREATE TABLE vocabulary (vid INTEGER PRIMARY KEY, name TEXT NOT NULL, weight INTEGER NOT NULL);
CREATE TABLE term (
  tid INTEGER PRIMARY KEY, vid INTEGER NOT NULL, parent INTEGER NOT NULL, name TEXT NOT NULL,
  description TEXT NOT NULL, weight INTEGER NOT NULL
);
CREATE INDEX term_parent ON term (vid, parent, weight);
CREATE TABLE term_node (nid INTEGER NOT NULL, tid INTEGER NOT NULL, PRIMARY KEY (nid, tid)) WITHOUT ROWID;
CREATE INDEX term_node_tid ON term_node (tid, nid);

CREATE TABLE comments (
  cid INTEGER PRIMARY KEY, nid INTEGER NOT NULL, pid INTEGER NOT NULL, uid INTEGER NOT NULL,
  name TEXT NOT NULL, subject TEXT NOT NULL, comment TEXT NOT NULL, rating INTEGER NOT NULL,
  created INTEGER NOT NULL, status INTEGER NOT NULL, place TEXT NOT NULL
);
CREATE INDEX comments_node ON comments (nid, status, place);
CREATE INDEX comments_created ON comments (status, created);

CREATE TABLE url_alias (src TEXT PRIMARY KEY, dst TEXT NOT NULL UNIQUE) WITHOUT ROWID;
CREATE TABLE menu_router (
  path TEXT PRIMARY KEY, fit INTEGER NOT NULL, parts INTEGER NOT NULL, module TEXT NOT NULL,
  title TEXT NOT NULL, callback TEXT NOT NULL, arguments TEXT NOT NULL,
  access_callback TEXT NOT NULL, access_arguments TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE menu_links (
  mlid INTEGER PRIMARY KEY, menu TEXT NOT NULL, plid INTEGER NOT NULL, path TEXT NOT NULL,
  title TEXT NOT NULL, weight INTEGER NOT NULL
);
CREATE INDEX menu_links_tree ON menu_links (menu, plid, weight);
CREATE TABLE blocks (
  bid INTEGER PRIMARY KEY, module TEXT NOT NULL, delta TEXT NOT NULL, region TEXT NOT NULL,
  weight INTEGER NOT NULL, status INTEGER NOT NULL, title TEXT NOT NULL, visibility TEXT NOT NULL,
  UNIQUE (module, delta)
);
CREATE TABLE views (name TEXT PRIMARY KEY, definition TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE filters (format TEXT NOT NULL, weight INTEGER NOT NULL, name TEXT NOT NULL);
CREATE INDEX filters_format ON filters (format, weight);
CREATE TABLE locales (source TEXT PRIMARY KEY, translation TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE contact (
  mid INTEGER PRIMARY KEY, name TEXT NOT NULL, mail TEXT NOT NULL, message TEXT NOT NULL,
  created INTEGER NOT NULL
);

CREATE TABLE search_index (
  word TEXT NOT NULL, nid INTEGER NOT NULL, score INTEGER NOT NULL, PRIMARY KEY (word, nid)
) WITHOUT ROWID;
CREATE TABLE log (
  lid INTEGER PRIMARY KEY, type TEXT NOT NULL, message TEXT NOT NULL, path TEXT NOT NULL,
  created INTEGER NOT NULL
);
-- A rowid table: its rows are long, and a lookup must not move through them.
CREATE TABLE cache_page (
  cid TEXT PRIMARY KEY, data TEXT NOT NULL, headers TEXT NOT NULL, tags TEXT NOT NULL,
  created INTEGER NOT NULL, expire INTEGER NOT NULL
);
CREATE INDEX cache_page_created ON cache_page (created);

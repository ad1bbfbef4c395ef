#!/usr/bin/python3
"""Runs one web server that answers "Hello World", in the foreground.

    serve.py nginx|apache-worker|apache-event|mongrel2|mongrel2-handler|gevent-class|gevent-function|tornado
             --listen HOST:PORT --dir DIRECTORY [--to HOST:PORT --from HOST:PORT] [--descriptors N]

Configuration, logs and pid files are written below DIRECTORY. Each server has the number of
processes and threads of its Debian package, without tuning.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys

HELLO = b"Hello World"
TYPE = "text/plain; charset=utf-8"


def write(directory, name, text):
    path = os.path.join(directory, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def nginx(args, host, port):
    config = write(args.dir, "nginx.conf", f"""
daemon off;
worker_processes auto;
worker_rlimit_nofile 65536;
pid {args.dir}/nginx.pid;
error_log {args.dir}/error.log;
events {{ worker_connections 10240; }}
http {{
    access_log off;
    default_type "{TYPE}";
    server {{
        listen {host}:{port} backlog=4096;
        root {args.dir};
        location / {{ try_files /hello.txt =404; }}
    }}
    types {{ }}
}}
""")
    write(args.dir, "hello.txt", HELLO.decode())
    os.execvp("nginx", ["nginx", "-c", config, "-e", f"{args.dir}/error.log"])


def apache(args, host, port, mpm):
    modules = "/usr/lib/apache2/modules"
    write(args.dir, "hello.txt", HELLO.decode())
    # The limits of Debian's mpm_worker.conf and mpm_event.conf.
    config = write(args.dir, "apache.conf", f"""
ServerRoot {args.dir}
ServerName localhost
PidFile {args.dir}/apache.pid
ErrorLog {args.dir}/error.log
Mutex file:{args.dir} default
Listen {host}:{port}
ListenBacklog 4096
LoadModule mpm_{mpm}_module {modules}/mod_mpm_{mpm}.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule alias_module {modules}/mod_alias.so
StartServers 2
MinSpareThreads 25
MaxSpareThreads 75
ThreadLimit 64
ThreadsPerChild 25
MaxRequestWorkers 150
MaxConnectionsPerChild 0
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
DocumentRoot {args.dir}
AliasMatch "^/.*$" "{args.dir}/hello.txt"
<Directory {args.dir}>
    Require all granted
    ForceType "{TYPE}"
</Directory>
""")
    os.execvp("apache2", ["apache2", "-f", config, "-DFOREGROUND"])


def mongrel2(args, host, port):
    """Runs Mongrel2, which passes every request to the handler over ZeroMQ."""
    for name in ("run", "logs", "tmp"):
        os.makedirs(os.path.join(args.dir, name), exist_ok=True)
    config = write(args.dir, "mongrel2.conf", f"""
hello = Handler(send_spec='tcp://{args.to}', send_ident='petasos-lab-send',
                recv_spec='tcp://{getattr(args, "from")}', recv_ident='')
main = Server(uuid='petasos-lab', access_log='/logs/access.log', error_log='/logs/error.log',
              chroot='{args.dir}', default_host='localhost', name='main', pid_file='/run/mongrel2.pid',
              port={port}, bind_addr='{host}',
              hosts=[Host(name='localhost', matching='.*', routes={{'/': hello}})])
servers = [main]
settings = {{'zeromq.threads': 1, 'server.daemonize': 0, 'disable.access_logging': 1, 'limits.min_wait': 0}}
""")
    database = os.path.join(args.dir, "config.sqlite")
    if os.path.exists(database):
        os.remove(database)
    subprocess.run(["m2sh", "load", "-config", config, "-db", database], check=True, cwd=args.dir)
    os.chdir(args.dir)
    os.execvp("mongrel2", ["mongrel2", database, "petasos-lab"])


def mongrel2_handler(args, _host, _port):
    """Runs the handler: receives requests from Mongrel2 and publishes the responses."""
    import gevent.pool
    import zmq.green as zmq

    context = zmq.Context()
    requests = context.socket(zmq.PULL)
    requests.connect(f"tcp://{args.to}")
    answers = context.socket(zmq.PUB)
    answers.connect(f"tcp://{getattr(args, 'from')}")
    answers.setsockopt(zmq.IDENTITY, b"petasos-lab-handler")
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: {TYPE}\r\nContent-Length: {len(HELLO)}\r\nServer: mongrel2-gevent\r\n\r\n"
    ).encode()

    def answer(message):
        sender, connection, path, _rest = message.split(b" ", 3)
        if path == b"@*":
            return
        answers.send(b"%s %d:%s, %s%s" % (sender, len(connection), connection, head, HELLO))

    pool = gevent.pool.Pool(1000)
    while True:
        pool.spawn(answer, requests.recv())


class ClassView:
    """A view that is instantiated for each request, like those of class-based frameworks."""

    def __init__(self, environ, start_response):
        self.environ, self.start_response = environ, start_response

    def get(self):
        self.start_response("200 OK", [("Content-Type", TYPE), ("Content-Length", str(len(HELLO))), ("Server", "gevent")])
        return [HELLO]

    def __iter__(self):
        return iter(getattr(self, self.environ["REQUEST_METHOD"].lower())())


def function_view(environ, start_response):
    start_response("200 OK", [("Content-Type", TYPE), ("Content-Length", str(len(HELLO))), ("Server", "gevent")])
    return [HELLO]


def gevent_wsgi(host, port, view):
    from gevent import pywsgi

    pywsgi.WSGIServer((host, port), view, log=None, error_log=sys.stderr, backlog=4096).serve_forever()


def tornado(_args, host, port):
    import tornado.ioloop
    import tornado.web

    class Hello(tornado.web.RequestHandler):
        def get(self):
            self.set_header("Content-Type", TYPE)
            self.write(HELLO)

        def log_request(self):
            pass

    class Quiet(tornado.web.Application):
        def log_request(self, handler):
            pass

    Quiet([(r"/.*", Hello)]).listen(port, address=host, backlog=4096)
    tornado.ioloop.IOLoop.current().start()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--dir", required=True)
    parser.add_argument("--to")
    parser.add_argument("--from")
    parser.add_argument("--descriptors", type=int)
    args = parser.parse_args()
    host, port = args.listen.rsplit(":", 1)
    args.dir = os.path.abspath(args.dir)
    shutil.rmtree(args.dir, ignore_errors=True)
    os.makedirs(args.dir)
    if args.descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (args.descriptors, args.descriptors))
    servers = {
        "nginx": nginx,
        "apache-worker": lambda *place: apache(*place, "worker"),
        "apache-event": lambda *place: apache(*place, "event"),
        "mongrel2": mongrel2,
        "mongrel2-handler": mongrel2_handler,
        "gevent-class": lambda args, *place: gevent_wsgi(*place, ClassView),
        "gevent-function": lambda args, *place: gevent_wsgi(*place, function_view),
        "tornado": tornado,
    }
    if args.server not in servers:
        parser.error(f"there is no server {args.server!r}: choose one of {', '.join(servers)}")
    servers[args.server](args, host, int(port))


if __name__ == "__main__":
    main()

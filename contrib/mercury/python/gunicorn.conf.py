"""gunicorn of the stack, with the values with which labs/wagtail measures."""

wsgi_app = "stack.wsgi"
chdir = "/opt/mercury/project"
# Over a Unix socket, gunicorn believes the scheme that nginx states.
bind = "unix:/run/mercury/gunicorn.sock"
# Each worker answers one request at a time. All share the memory of the code that was loaded before
# they started.
workers = 3
preload_app = True
# A file on a disk that hangs would look like a worker that hangs.
worker_tmp_dir = "/dev/shm"
control_socket_disable = True

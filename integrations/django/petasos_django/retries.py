"""Failed purges, which wait in this process until they are sent again.

Invariant: a purge waits for an address until it has been sent there, or until a purge of everything
has included it. Memory has a limit: too many tags or URLs become a purge of everything. A process
that ends forgets what waits.
"""

import threading

# Name of the webhook among the addresses of edges.
WEBHOOK = "webhook"
# Most tags and URLs that wait for one address.
ITEMS_MAX = 2000
# The first pause before a retry, and the longest one. Each failed retry doubles the pause.
PAUSE_S = 30.0
PAUSE_MAX_S = 600.0


class Purge:
    """What is purged: tags, URLs, or everything."""

    def __init__(self, tags=(), urls=(), everything=False):
        self.tags = set(tags)
        self.urls = set(urls)
        self.everything = everything

    def add(self, other):
        """Adds another purge to this one."""
        self.tags |= other.tags
        self.urls |= other.urls
        if self.everything or other.everything or len(self.tags) + len(self.urls) > ITEMS_MAX:
            self.tags, self.urls, self.everything = set(), set(), True

    def parts(self):
        """Purges of one kind each, which together are this one."""
        parts = [Purge(tags=self.tags), Purge(urls=self.urls), Purge(everything=self.everything)]
        return [part for part in parts if part.tags or part.urls or part.everything]


class Queue:
    """The failed purges of this process, by address. `now` is in seconds of a monotonic clock."""

    def __init__(self):
        self._lock = threading.Lock()
        self._waiting = {}
        self._sending = {}
        self._due = 0.0
        self._pause = PAUSE_S

    def add(self, address, purge, now):
        """Adds a purge that has failed."""
        with self._lock:
            if not self._waiting and not self._sending:
                self._due, self._pause = now + PAUSE_S, PAUSE_S
            self._waiting.setdefault(address, Purge()).add(purge)

    def reached(self, address, purge, now):
        """A later purge has reached the address, so that what waits for it is due."""
        with self._lock:
            if address in self._waiting:
                self._due = min(self._due, now)
                if purge.everything:
                    del self._waiting[address]

    def take(self, now):
        """All purges by address, if a retry is due; otherwise none. `finish` must follow."""
        # Almost every request finds nothing. Reading without the lock is enough for that.
        if not self._waiting:
            return {}
        with self._lock:
            if self._sending or now < self._due:
                return {}
            self._sending, self._waiting = self._waiting, {}
            self._pause = min(2 * self._pause, PAUSE_MAX_S)
            self._due = now + self._pause
            return self._sending

    def finish(self):
        """The purges that `take` returned were sent, or were added again."""
        with self._lock:
            self._sending = {}

    def waits_for(self, addresses):
        """Whether a purge waits for one of these addresses, or is being sent again."""
        with self._lock:
            return any(address in self._waiting or address in self._sending for address in addresses)

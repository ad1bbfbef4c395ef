<?php
/**
 * Objects in memcached, by PHP's extension `memcached`.
 *
 * Invariant: see `Backend`. A value that is too large for the server is not stored, and the old
 * value of its key is removed.
 */

declare(strict_types=1);

namespace Petasos\Objects;

use Petasos\Text;

final class MemcachedBackend implements Backend
{
    /** memcached treats a longer lifetime as a date. */
    private const LIFE_SECONDS_MAX = 30 * 86400;

    private \Memcached $memcached;

    private array $servers;
    private Codec $codec;

    /**
     * Configures the servers.
     *
     * @param  list<string> $servers `HOST:PORT`s, or paths of sockets
     * @param  float        $limit   for connecting and for each response, in seconds
     * @throws Gone
     */
    public function __construct(array $servers, float $limit, Codec $codec)
    {
        $this->servers = $servers;
        $this->codec = $codec;
        if (!class_exists(\Memcached::class)) {
            throw new Gone('PHP cannot speak with memcached: install php-memcached');
        }
        $this->memcached = new \Memcached('petasos-' . implode(',', $servers));
        if ($this->memcached->getServerList() === []) {
            $this->memcached->setOptions([
                \Memcached::OPT_CONNECT_TIMEOUT => (int) ($limit * 1000),
                \Memcached::OPT_SEND_TIMEOUT => (int) ($limit * 1e6),
                \Memcached::OPT_RECV_TIMEOUT => (int) ($limit * 1e6),
                \Memcached::OPT_COMPRESSION => false,
                \Memcached::OPT_BINARY_PROTOCOL => true,
                \Memcached::OPT_TCP_NODELAY => true,
            ]);
            foreach ($servers as $server) {
                [$host, $port] = Text::startsWith($server, '/') ? [$server, 0] : explode(':', $server, 2) + [1 => '11211'];
                $this->memcached->addServer($host, (int) $port);
            }
        }
    }

    public function get(array $keys): array
    {
        $texts = $this->memcached->getMulti($keys);
        $this->check();
        $found = [];
        foreach (is_array($texts) ? $texts : [] as $key => $text) {
            // The extension returns numbers as numbers.
            [$is_ours, $value] = is_int($text) ? [true, $text] : (is_string($text) ? $this->codec->decode($text) : [false, null]);
            if ($is_ours) {
                $found[$key] = $value;
            }
        }
        return $found;
    }

    public function set(string $key, $value, int $seconds): bool
    {
        $done = $this->memcached->set($key, $this->codec->encode($value), $this->life($seconds));
        if (!$done) {
            $this->check();
            $this->memcached->delete($key);
        }
        return $done;
    }

    public function add(string $key, $value, int $seconds): bool
    {
        $done = $this->memcached->add($key, $this->codec->encode($value), $this->life($seconds));
        $this->check();
        return $done;
    }

    public function delete(string $key): bool
    {
        $done = $this->memcached->delete($key);
        $this->check();
        return $done;
    }

    public function increment(string $key, int $by): ?int
    {
        if (!is_int($this->get([$key])[$key] ?? null)) {
            return null;
        }
        $value = $by < 0 ? $this->memcached->decrement($key, -$by) : $this->memcached->increment($key, $by);
        $this->check();
        return is_int($value) ? $value : null;
    }

    private function life(int $seconds): int
    {
        return min($seconds, self::LIFE_SECONDS_MAX);
    }

    /** @throws Gone if the last call failed because no server was reachable */
    private function check(): void
    {
        $code = $this->memcached->getResultCode();
        $harmless = [
            \Memcached::RES_SUCCESS, \Memcached::RES_NOTFOUND, \Memcached::RES_NOTSTORED, \Memcached::RES_DATA_EXISTS,
            \Memcached::RES_E2BIG, \Memcached::RES_BAD_KEY_PROVIDED,
        ];
        if (!in_array($code, $harmless, true)) {
            throw new Gone('memcached at ' . implode(', ', $this->servers) . ': ' . $this->memcached->getResultMessage());
        }
    }
}

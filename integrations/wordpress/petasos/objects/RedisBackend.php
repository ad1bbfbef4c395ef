<?php
/**
 * Objects in Redis, by PHP's extension `redis`.
 *
 * Invariant: see `Backend`. Connecting and each response have a time limit, so that a hanging
 * server delays a request only once.
 */

declare(strict_types=1);

namespace Petasos\Objects;

use Petasos\Text;

final class RedisBackend implements Backend
{
    private \Redis $redis;

    private string $server;
    private Codec $codec;

    /**
     * Connects to the server.
     *
     * @param  string $server   `HOST:PORT`, or the path of a socket
     * @param  float  $limit    for connecting and for each response, in seconds
     * @throws Gone
     */
    public function __construct(
        string $server,
        string $password,
        int $database,
        float $limit,
        Codec $codec
    ) {
        $this->server = $server;
        $this->codec = $codec;
        if (!class_exists(\Redis::class)) {
            throw new Gone('PHP cannot speak with Redis: install php-redis');
        }
        [$host, $port] = Text::startsWith($server, '/') ? [$server, 0] : explode(':', $server, 2) + [1 => '6379'];
        $this->redis = new \Redis();
        $this->ask(function () use ($host, $port, $limit, $password, $database): bool {
            return $this->redis->pconnect($host, (int) $port, $limit, "petasos-$database", 0, $limit)
                && ($password === '' || $this->redis->auth($password))
                && ($database === 0 || $this->redis->select($database));
        });
    }

    public function get(array $keys): array
    {
        $texts = $this->ask(fn () => $this->redis->mget($keys));
        $found = [];
        foreach (is_array($texts) ? $texts : [] as $index => $text) {
            [$is_ours, $value] = is_string($text) ? $this->codec->decode($text) : [false, null];
            if ($is_ours) {
                $found[$keys[$index]] = $value;
            }
        }
        return $found;
    }

    public function set(string $key, $value, int $seconds): bool
    {
        return (bool) $this->ask(fn () => $this->redis->set($key, $this->codec->encode($value), $this->life($seconds)));
    }

    public function add(string $key, $value, int $seconds): bool
    {
        $options = ['nx', ...$this->life($seconds)];
        return (bool) $this->ask(fn () => $this->redis->set($key, $this->codec->encode($value), $options));
    }

    public function delete(string $key): bool
    {
        return $this->ask(fn () => $this->redis->del($key)) === 1;
    }

    public function increment(string $key, int $by): ?int
    {
        if (!is_int($this->get([$key])[$key] ?? null)) {
            return null;
        }
        $value = $this->ask(fn () => $this->redis->incrBy($key, $by));
        return is_int($value) ? $value : null;
    }

    /** @return array<string, int> */
    private function life(int $seconds): array
    {
        return $seconds > 0 ? ['ex' => $seconds] : [];
    }

    private function ask(callable $ask)
    {
        try {
            return $ask();
        } catch (\RedisException $error) {
            throw new Gone("Redis at $this->server: " . $error->getMessage(), 0, $error);
        }
    }
}

<?php
/**
 * Which backend keeps which group: the map `PETASOS_OBJECTS` of wp-config.php.
 *
 * Invariant: a backend is made when the first of its groups is asked for, once. One that is gone stays gone for this
 * request, and its groups live in the request's memory alone. The reason is kept for the administrator.
 */

declare(strict_types=1);

namespace Petasos\Objects;

use Petasos\Settings;

final class Router
{
    /** @var array<string, ?Backend> by kind; null: gone, or none */
    private array $backends = [];

    /** @var array<string, string> what is gone, and why */
    private array $failures = [];

    /**
     * @param array<string, mixed>             $map   kinds by group; `*` for all others
     * @param ?array<string, callable():Backend> $makers how each kind is made; null: from the constants
     */
    public function __construct(private readonly array $map, private readonly ?array $makers = null)
    {
    }

    /** The kind of backend for a group: `apcu`, `redis`, `memcached`, `database` or `none`. */
    public function kind(string $group): string
    {
        $kind = $this->map[$group] ?? $this->map['*'] ?? 'none';
        return is_string($kind) ? $kind : 'none';
    }

    /** @return list<string> the groups that the map names, and one that stands for all others */
    public function groups(): array
    {
        return array_map('strval', array_keys($this->map + ['*' => 'none']));
    }

    public function backend(string $group): ?Backend
    {
        $kind = $this->kind($group);
        if (!array_key_exists($kind, $this->backends)) {
            try {
                $this->backends[$kind] = $this->make($kind);
            } catch (Gone $gone) {
                $this->lose($group, $gone);
            }
        }
        return $this->backends[$kind];
    }

    /** The group's backend is not asked again. */
    public function lose(string $group, Gone $why): void
    {
        $this->backends[$this->kind($group)] = null;
        $this->failures[$this->kind($group)] ??= $why->getMessage();
    }

    /** @return array<string, string> */
    public function failures(): array
    {
        return $this->failures;
    }

    /** @throws Gone */
    private function make(string $kind): ?Backend
    {
        if ($this->makers !== null) {
            return isset($this->makers[$kind]) ? $this->makers[$kind]() : null;
        }
        // PHP keeps these itself. What the others need is not even loaded for them: pages may come from here.
        if ($kind === 'apcu') {
            return new ApcuBackend();
        }
        $codec = new Codec(self::secret());
        $limit = Settings::number('PETASOS_OBJECTS_TIMEOUT_MS', 200, 1, 10_000) / 1000;
        return match ($kind) {
            'redis' => new RedisBackend(
                Settings::text('PETASOS_REDIS', '127.0.0.1:6379'),
                Settings::text('PETASOS_REDIS_PASSWORD'),
                Settings::number('PETASOS_REDIS_DATABASE', 0, 0, 1023),
                $limit,
                $codec,
            ),
            'memcached' => new MemcachedBackend(Settings::words('PETASOS_MEMCACHED') ?: ['127.0.0.1:11211'], $limit, $codec),
            'database' => new TableBackend($codec),
            'none' => null,
            default => throw new Gone("PETASOS_OBJECTS names \"$kind\": apcu, redis, memcached, database and none are known"),
        };
    }

    /** What only this site knows. */
    private static function secret(): string
    {
        return implode('|', array_map(Settings::text(...), ['AUTH_KEY', 'AUTH_SALT', 'DB_NAME', 'DB_PASSWORD']));
    }
}

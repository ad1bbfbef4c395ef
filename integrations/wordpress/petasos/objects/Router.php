<?php
/**
 * Selects the backend of a group by the map `PETASOS_OBJECTS` in wp-config.php.
 *
 * Invariant: a backend is created once, at the first use of one of its groups. A failed backend is
 * not used again in this request, and its groups live in the request's memory only. The cause is
 * stored for the administrator.
 */

declare(strict_types=1);

namespace Petasos\Objects;

use Petasos\Settings;

final class Router
{
    /** @var array<string, ?Backend> by kind; null if it has failed, or the kind is `none` */
    private array $backends = [];

    /** @var array<string, string> causes of failures, by kind */
    private array $failures = [];

    private array $map;
    private ?array $makers;

    /**
     * Makes a router.
     *
     * @param array<string, mixed> $map kinds by group; `*` for all others
     * @param ?array<string, callable():Backend> $makers constructors of each kind; null: constants
     */
    public function __construct(array $map, ?array $makers = null)
    {
        $this->map = $map;
        $this->makers = $makers;
    }

    /** The kind of backend for a group: `apcu`, `redis`, `memcached`, `database` or `none`. */
    public function kind(string $group): string
    {
        $kind = $this->map[$group] ?? $this->map['*'] ?? 'none';
        return is_string($kind) ? $kind : 'none';
    }

    /** @return list<string> the groups in the map, and `*` for all others */
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

    /** Marks the group's backend as failed. */
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
        $codec = new Codec(Settings::secret());
        $limit = Settings::number('PETASOS_OBJECTS_TIMEOUT_MS', 200, 1, 10_000) / 1000;
        switch ($kind) {
            case 'apcu':
                return new ApcuBackend($codec);
            case 'redis':
                return new RedisBackend(
                    Settings::text('PETASOS_REDIS', '127.0.0.1:6379'),
                    Settings::text('PETASOS_REDIS_PASSWORD'),
                    Settings::number('PETASOS_REDIS_DATABASE', 0, 0, 1023),
                    $limit,
                    $codec
                );
            case 'memcached':
                return new MemcachedBackend(Settings::words('PETASOS_MEMCACHED') ?: ['127.0.0.1:11211'], $limit, $codec);
            case 'database':
                return new TableBackend($codec);
            case 'none':
                return null;
        }
        throw new Gone("PETASOS_OBJECTS names \"$kind\": apcu, redis, memcached, database and none are known");
    }
}

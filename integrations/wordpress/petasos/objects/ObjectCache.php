<?php
/**
 * WordPress' object cache. Every value is in the request's memory, and, depending on its group, in
 * a backend that outlives the request.
 *
 * A key in a backend contains the site, the blog (unless the group is global), the group, and the
 * group's *generation*. This is a random word that a flush replaces. So one write empties a group,
 * or everything, for all processes, and other users of the same server lose nothing.
 *
 * Invariant: objects are copied on the way in and out. A backend's failure never fails a request:
 * its groups continue in memory, and `Router::failures` holds the cause.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class ObjectCache
{
    /**
     * Lifetime of values without one, in seconds. It must be finite, because values of flushed
     * generations are never deleted.
     */
    private const LIFE_DEFAULT = 86400;

    /** Longer keys are hashed; memcached accepts 250 bytes. */
    private const KEY_OCTETS_MAX = 200;

    /** Numbers of hits and misses. WordPress and plug-ins read them by these names. */
    public int $cache_hits = 0;
    public int $cache_misses = 0;

    /** Number of values found in backends, and of calls to backends. */
    public int $found = 0;
    public int $asked = 0;

    /** @var array<string, array<string, mixed>> by scope and group */
    private array $memory = [];

    /** @var array<string, string> by scope and group, or `*` and the backend's kind */
    private array $generations = [];

    /** @var array<string, true> */
    private array $global_groups = [];

    /** @var array<string, true> */
    private array $memory_groups = [];

    public Router $router;
    private string $site;
    private int $blog;
    private bool $is_multisite;

    public function __construct(
        Router $router,
        string $site,
        int $blog,
        bool $is_multisite
    ) {
        $this->router = $router;
        $this->site = $site;
        $this->blog = $blog;
        $this->is_multisite = $is_multisite;
    }

    public function add($key, $data, string $group = '', int $expire = 0): bool
    {
        $group = $this->group($group);
        if (function_exists('wp_suspend_cache_addition') && wp_suspend_cache_addition()) {
            return false;
        }
        if (!$this->isKey($key) || array_key_exists((string) $key, $this->memory[$this->scope($group)] ?? [])) {
            return false;
        }
        $there = fn (Backend $backend, string $name): bool => $backend->add($name, $data, $this->life($expire));
        if ($this->ask($group, $key, $there) === false) {
            return false;
        }
        $this->remember($group, $key, $data);
        return true;
    }

    public function replace($key, $data, string $group = '', int $expire = 0): bool
    {
        $this->get($key, $group, false, $found);
        return $found && $this->set($key, $data, $group, $expire);
    }

    public function set($key, $data, string $group = '', int $expire = 0): bool
    {
        $group = $this->group($group);
        if (!$this->isKey($key)) {
            return false;
        }
        $this->remember($group, $key, $data);
        $this->ask($group, $key, fn (Backend $backend, string $name): bool => $backend->set($name, $data, $this->life($expire)));
        return true;
    }

    public function get($key, string $group = '', bool $force = false, ?bool &$found = null)
    {
        $found = false;
        if (!$this->isKey($key)) {
            return false;
        }
        $values = $this->find([$key], $this->group($group), $force);
        $found = array_key_exists((string) $key, $values);
        return $found ? $values[(string) $key] : false;
    }

    /**
     * Returns several values of a group.
     *
     * @param  list<int|string> $keys
     * @return array<int|string, mixed> false for missing values
     */
    public function get_multiple(array $keys, string $group = '', bool $force = false): array
    {
        $values = $this->find(array_values(array_filter($keys, \Closure::fromCallable([$this, 'isKey']))), $this->group($group), $force);
        $answer = [];
        foreach ($keys as $key) {
            $answer[$key] = $values[(string) $key] ?? false;
        }
        return $answer;
    }

    public function delete($key, string $group = ''): bool
    {
        $group = $this->group($group);
        if (!$this->isKey($key)) {
            return false;
        }
        $there = array_key_exists((string) $key, $this->memory[$this->scope($group)] ?? []);
        unset($this->memory[$this->scope($group)][(string) $key]);
        $gone = $this->ask($group, $key, static fn (Backend $backend, string $name): bool => $backend->delete($name));
        return $gone ?? $there;
    }

    /**
     * Adds to a number. A value that is no number counts as 0, and the sum is never below 0. False
     * if the key is missing.
     */
    public function incr($key, int $offset = 1, string $group = '')
    {
        $value = $this->get($key, $group, true, $found);
        if (!$found) {
            return false;
        }
        $group = $this->group($group);
        $sum = max(0, (is_numeric($value) ? (int) $value : 0) + $offset);
        if (is_int($value) && $sum === $value + $offset) {
            $counted = $this->ask($group, $key, static fn (Backend $backend, string $name): ?int => $backend->increment($name, $offset));
            if (is_int($counted) && $counted >= 0) {
                $this->remember($group, $key, $counted);
                return $counted;
            }
        }
        $this->set($key, $sum, $group);
        return $sum;
    }

    public function decr($key, int $offset = 1, string $group = '')
    {
        return $this->incr($key, -$offset, $group);
    }

    /** Empties everything of this site. */
    public function flush(): bool
    {
        $this->memory = [];
        $this->generations = [];
        $done = true;
        $kinds = [];
        foreach ($this->router->groups() as $group) {
            $kinds[$this->router->kind($group)] = $group;
        }
        foreach ($kinds as $kind => $group) {
            $done = $this->renew("*$kind", $group) && $done;
        }
        return $done;
    }

    public function flush_group(string $group): bool
    {
        $group = $this->group($group);
        $scope = $this->scope($group);
        unset($this->memory[$scope]);
        return isset($this->memory_groups[$group]) || $this->renew($scope, $group);
    }

    /** Empties the request's memory only. */
    public function flush_runtime(): bool
    {
        $this->memory = [];
        $this->generations = [];
        return true;
    }

    /** @param list<string> $groups */
    public function add_global_groups(array $groups): void
    {
        $this->global_groups += array_fill_keys($groups, true);
    }

    /** @param list<string> $groups */
    public function add_non_persistent_groups(array $groups): void
    {
        $this->memory_groups += array_fill_keys($groups, true);
    }

    public function switch_to_blog(int $blog): void
    {
        $this->blog = $blog;
    }

    /** Prints figures for debugging plug-ins. */
    public function stats(): void
    {
        printf(
            '<p>%d hits, %d misses; %d answers of backends, %d values found there.</p>',
            $this->cache_hits,
            $this->cache_misses,
            $this->asked,
            $this->found
        );
    }

    /**
     * Finds values in memory or in the backend.
     *
     * @param  list<int|string> $keys
     * @return array<string, mixed> copies of the values found
     */
    private function find(array $keys, string $group, bool $force): array
    {
        $scope = $this->scope($group);
        $missing = [];
        foreach ($keys as $key) {
            if (!array_key_exists((string) $key, $this->memory[$scope] ?? []) || ($force && $this->isShared($group))) {
                $missing[] = $key;
            }
        }
        if ($missing !== []) {
            $this->fetch($missing, $group, $scope);
        }
        $values = [];
        foreach ($keys as $key) {
            if (array_key_exists((string) $key, $this->memory[$scope] ?? [])) {
                $value = $this->memory[$scope][(string) $key];
                $values[(string) $key] = is_object($value) ? clone $value : $value;
                ++$this->cache_hits;
            } else {
                ++$this->cache_misses;
            }
        }
        return $values;
    }

    /**
     * Copies values from a backend into memory. Values that the backend no longer has are removed.
     *
     * @param list<int|string> $keys
     */
    private function fetch(array $keys, string $group, string $scope): void
    {
        if (!$this->isShared($group)) {
            return;
        }
        $names = [];
        foreach ($keys as $key) {
            $name = $this->name($group, $key);
            if ($name !== null) {
                $names[$name] = (string) $key;
            }
        }
        $found = $names === [] ? null : $this->call($group, static fn (Backend $backend): array => $backend->get(array_keys($names)));
        if (!is_array($found)) {
            return;
        }
        foreach ($names as $name => $key) {
            unset($this->memory[$scope][$key]);
            if (array_key_exists($name, $found)) {
                $this->memory[$scope][$key] = $found[$name];
                ++$this->found;
            }
        }
    }

    private function remember(string $group, $key, $data): void
    {
        $this->memory[$this->scope($group)][(string) $key] = is_object($data) ? clone $data : $data;
    }

    /** Calls the group's backend for one key; null without a backend. */
    private function ask(string $group, $key, callable $ask)
    {
        $name = $this->isShared($group) ? $this->name($group, $key) : null;
        return $name === null ? null : $this->call($group, static fn (Backend $backend) => $ask($backend, $name));
    }

    /** Calls the group's backend; null if there is none, or it has failed. */
    private function call(string $group, callable $ask)
    {
        $backend = $this->router->backend($group);
        if ($backend === null) {
            return null;
        }
        try {
            ++$this->asked;
            return $ask($backend);
        } catch (Gone $gone) {
            $this->router->lose($group, $gone);
            return null;
        }
    }

    private function isShared(string $group): bool
    {
        return !isset($this->memory_groups[$group]) && $this->router->backend($group) !== null;
    }

    /** Key in the backend; null if the backend does not answer. */
    private function name(string $group, $key): ?string
    {
        $scope = $this->scope($group);
        $all = $this->generation('*' . $this->router->kind($group), $group);
        $own = $all === null ? null : $this->generation($scope, $group);
        if ($own === null) {
            return null;
        }
        $name = "$this->site:$all:$own:$scope:$key";
        $is_plain = strlen($name) <= self::KEY_OCTETS_MAX && preg_match('/^[\x21-\x7e]+$/D', $name);
        return $is_plain ? $name : "$this->site:$all:$own:" . hash('sha256', "$scope:$key");
    }

    /** Generation of a group, or of all groups of a kind of backend. Generated if there is none. */
    private function generation(string $scope, string $group): ?string
    {
        if (isset($this->generations[$scope])) {
            return $this->generations[$scope];
        }
        $name = $this->generationName($scope);
        $drawn = bin2hex(random_bytes(6));
        $word = $this->call($group, static function (Backend $backend) use ($name, $drawn): ?string {
            $found = $backend->get([$name])[$name] ?? null;
            if ($found === null) {
                // If several processes generate one at the same time, one wins.
                $found = $backend->add($name, $drawn, 0) ? $drawn : ($backend->get([$name])[$name] ?? null);
            }
            return is_string($found) ? $found : null;
        });
        if (is_string($word)) {
            $this->generations[$scope] = $word;
        }
        return is_string($word) ? $word : null;
    }

    /** Starts a new generation. */
    private function renew(string $scope, string $group): bool
    {
        unset($this->generations[$scope]);
        $name = $this->generationName($scope);
        $drawn = bin2hex(random_bytes(6));
        return $this->call($group, static fn (Backend $backend): bool => $backend->set($name, $drawn, 0)) ?? true;
    }

    private function generationName(string $scope): string
    {
        return "$this->site:generation:" . hash('md5', $scope);
    }

    /** Scope of a group: the blog unless the group is global, and the group. */
    private function scope(string $group): string
    {
        return ($this->is_multisite && !isset($this->global_groups[$group]) ? $this->blog : '') . ":$group";
    }

    private function group(string $group): string
    {
        return $group === '' ? 'default' : $group;
    }

    private function isKey($key): bool
    {
        return is_int($key) || (is_string($key) && trim($key) !== '');
    }

    private function life(int $expire): int
    {
        return $expire > 0 ? $expire : self::LIFE_DEFAULT;
    }
}

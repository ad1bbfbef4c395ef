<?php
/**
 * A Petasos in front of the site: sends purges to it and reads its state.
 *
 * The address is one of two kinds. The visitors' address (`PETASOS_EDGE`) receives PURGEKEYS
 * requests. The admin address (`PETASOS_ADMIN`) has a JSON API, which is better if it is reachable.
 *
 * Invariant: see `Http`. Errors are returned as texts; no method throws. The token is sent only to
 * an address that the owner has named, and a token of wp-config.php or the environment only to an
 * address that is named there too.
 */

declare(strict_types=1);

namespace Petasos;

final class Edge
{
    /** Where an edge on this machine usually has its admin address. */
    private const ADMIN_USUAL = 'http://127.0.0.1:8081';

    public string $address;
    public bool $is_admin;
    private string $host;
    private string $token;

    private function __construct(string $address, bool $is_admin, string $host, string $token)
    {
        $this->token = $token;
        $this->address = $address;
        $this->is_admin = $is_admin;
        $this->host = $host;
    }

    /**
     * The edges in the settings: those with an admin address if there are any, otherwise the
     * others.
     *
     * @return list<self>
     */
    public static function all(): array
    {
        $host = self::siteHost();
        $name = Settings::words('PETASOS_ADMIN') === [] ? 'PETASOS_EDGE' : 'PETASOS_ADMIN';
        $token = Settings::isFixed('PETASOS_TOKEN') && !Settings::isFixed($name) ? '' : Settings::text('PETASOS_TOKEN');
        $make = static fn (string $address): self => new self(rtrim($address, '/'), $name === 'PETASOS_ADMIN', $host, $token);
        return array_map($make, Settings::words($name));
    }

    /**
     * Purges everything with one of the tags, or the whole site if there is no tag.
     *
     * @param  list<string> $tags
     * @return ?string the error, or null
     */
    public function purge(array $tags): ?string
    {
        try {
            $answer = $this->is_admin ? $this->purgeByJson($tags) : $this->purgeByRequest($tags);
        } catch (\RuntimeException $error) {
            return $error->getMessage();
        }
        return self::refusal($answer);
    }

    /**
     * Purges one page.
     *
     * @return ?string the error, or null
     */
    public function purgeUrl(string $url): ?string
    {
        $parts = (array) parse_url($url);
        $target = ($parts['path'] ?? '/') . (isset($parts['query']) ? "?{$parts['query']}" : '');
        $host = ($parts['host'] ?? '') . (isset($parts['port']) ? ":{$parts['port']}" : '');
        $body = json_encode(['type' => 'uri', 'selectors' => [$url]], JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES);
        try {
            $answer = $this->is_admin
                ? $this->ask('POST', '/purge', ['Content-Type' => 'application/json'], $body)
                : $this->ask('PURGE', $target, ['Host' => $host]);
        } catch (\RuntimeException $error) {
            return $error->getMessage();
        }
        return self::refusal($answer);
    }

    /**
     * Looks for an edge: at its usual admin address on this machine, and in front of the site.
     * Sends no token, because anybody may listen there.
     *
     * @return ?string name of the setting for the address; null if there is no edge
     */
    public static function find(): ?string
    {
        $admin = new self(self::ADMIN_USUAL, true, self::siteHost(), '');
        if (!isset($admin->state()['error'])) {
            return 'PETASOS_ADMIN';
        }
        $answer = Loopback::get([]);
        return stripos($answer['headers']['cache-status'] ?? '', 'petasos') === false ? null : 'PETASOS_EDGE';
    }

    /** The address that `find` has found for this setting. */
    public static function found(string $name): string
    {
        return $name === 'PETASOS_ADMIN' ? self::ADMIN_USUAL : ((array) wp_parse_url(home_url('/')))['scheme'] . '://' . self::siteHost();
    }

    /**
     * Whether the edge accepts purges of this site, by a purge that meets no page.
     *
     * @return ?string the error, or null
     */
    public function refusesPurges(): ?string
    {
        return $this->purge(['petasos-test']);
    }

    /** @param array{status: int, headers: array<string, string>, body: string} $answer */
    private static function refusal(array $answer): ?string
    {
        return $answer['status'] === 200 ? null : "it answered {$answer['status']} " . substr(trim($answer['body']), 0, 200);
    }

    /**
     * The edge's state: figures of its status document, or the header fields of a HEAD of the front
     * page.
     *
     * @return array<string, string> by label; only `error` if the edge cannot be reached
     */
    public function state(): array
    {
        try {
            return $this->is_admin ? $this->stateByStatus() : $this->stateByVisit();
        } catch (\RuntimeException $error) {
            return ['error' => $error->getMessage()];
        }
    }

    /** @return array{status: int, headers: array<string, string>, body: string} */
    private function purgeByJson(array $tags): array
    {
        $call = $tags === [] ? ['type' => 'host', 'selectors' => [$this->host]] : ['type' => 'tag', 'selectors' => $tags];
        $site = Settings::text('PETASOS_SITE');
        if ($site !== '' && $tags !== []) {
            $call['site'] = $site;
        }
        $body = json_encode($call, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES);
        return $this->ask('POST', '/purge', ['Content-Type' => 'application/json'], $body);
    }

    /** @return array{status: int, headers: array<string, string>, body: string} */
    private function purgeByRequest(array $tags): array
    {
        return $tags === []
            ? $this->ask('PURGE', '/', ['Host' => $this->host, 'Clear-Cache' => 'true'])
            : $this->ask('PURGEKEYS', '/', ['Host' => $this->host, 'xkey-purge' => implode(' ', $tags)]);
    }

    /** @return array<string, string> */
    private function stateByStatus(): array
    {
        $status = json_decode($this->ask('GET', '/status', [])['body'], true);
        if (!is_array($status) || !is_array($status['store'] ?? null)) {
            throw new \RuntimeException('its answer is no status of Petasos');
        }
        $store = array_map('intval', array_filter($status['store'], 'is_numeric'));
        return [
            'version' => is_string($status['version'] ?? null) ? $status['version'] : '?',
            'stored responses' => number_format($store['objects'] ?? 0),
            'memory' => sprintf('%s of %s MB', number_format(($store['bytes'] ?? 0) / 1e6, 1), number_format(($store['bytes_max'] ?? 0) / 1e6)),
            'requests answered' => number_format((int) ($status['requests'] ?? 0)),
            'connections' => number_format((int) ($status['connections'] ?? 0)),
        ];
    }

    /** @return array<string, string> */
    private function stateByVisit(): array
    {
        $answer = $this->ask('HEAD', '/', ['Host' => $this->host]);
        return [
            'front page' => (string) $answer['status'],
            'Cache-Status' => $answer['headers']['cache-status'] ?? 'none: this is no Petasos, or it hides the field',
            'Age' => $answer['headers']['age'] ?? '0',
        ];
    }

    /**
     * @param  array<string, string> $headers
     * @return array{status: int, headers: array<string, string>, body: string}
     */
    private function ask(string $method, string $target, array $headers, string $body = ''): array
    {
        if ($this->token !== '' && $method !== 'HEAD') {
            // First, because the edge reads a long head with tags only after it has seen the token.
            $headers = ['Authorization' => "Bearer $this->token"] + $headers;
        }
        $limit = Settings::number('PETASOS_TIMEOUT_MS', 2000, 10, 60_000) / 1000;
        return Http::ask($method, $this->address, $target, $headers, $body, $limit);
    }

    /** The site's public name, with the port unless it is the default port. */
    private static function siteHost(): string
    {
        $url = wp_parse_url(home_url('/'));
        return ($url['host'] ?? 'localhost') . (isset($url['port']) ? ":{$url['port']}" : '');
    }
}

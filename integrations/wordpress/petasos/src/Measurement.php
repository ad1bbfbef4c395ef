<?php
/**
 * Measures the front page with and without each layer.
 *
 * A kind of request is sent once to fill caches and `ROUNDS` times for its figure, the median. The
 * kinds take turns, so that a change of the server's load affects all of them.
 *
 * Invariant: a figure is only stated if the response says that its layers were passed. All requests
 * together end after `SECONDS_MAX`.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Objects\ObjectCache;

final class Measurement
{
    /** Option with the last result. */
    public const OPTION = 'petasos_measured';

    private const ROUNDS = 3;
    private const SECONDS_MAX = 20;

    /** Layers that each kind of request passes. `visitor` is an ordinary request. */
    private const KINDS = [
        'visitor' => null,
        'inside' => [],
        'generated' => [Probe::PAGES],
        'plain' => [Probe::PAGES, Probe::OBJECTS],
        'compiled' => [Probe::PAGES, Probe::OBJECTS, Probe::OPCODE],
    ];

    /**
     * Measures and stores the result.
     *
     * @return array<string, mixed> `at`: time in seconds; `error`; `ms`: figures by kind; `edge`
     *         and `pages`: whether the page came from there
     */
    public static function run(Purges $purges): array
    {
        $end = microtime(true) + self::SECONDS_MAX;
        $result = ['at' => time(), 'error' => '', 'ms' => [], 'edge' => false, 'pages' => false];
        // If an edge had the page already, the page cache would not get it.
        $purges->page(home_url('/'));
        $kinds = self::KINDS;
        $times = [];
        for ($round = 0; $round <= self::ROUNDS; ++$round) {
            foreach ($kinds as $kind => $passes) {
                $answer = Loopback::get(self::fields($passes), max(0.1, $end - microtime(true)));
                if (microtime(true) >= $end) {
                    // What was measured until now counts.
                    $result['error'] = $times === [] ? 'no answer in ' . self::SECONDS_MAX . ' seconds' : '';
                    break 2;
                }
                if ($answer['error'] !== '' || $answer['status'] >= 400) {
                    $result['error'] = $answer['error'] !== '' ? $answer['error'] : "HTTP {$answer['status']}";
                    break 2;
                }
                if ($passes !== null && ($answer['headers'][strtolower(Probe::FIELD)] ?? '') !== Probe::answer($passes)) {
                    unset($kinds[$kind]);
                } elseif ($round > 0) {
                    $times[$kind][] = $answer['ms'];
                }
                $result = self::origins($kind, $answer['headers']) + $result;
            }
        }
        foreach (array_intersect_key($times, $kinds) as $kind => $list) {
            sort($list);
            $result['ms'][$kind] = round($list[intdiv(count($list), 2)], 1);
        }
        update_option(self::OPTION, $result, false);
        if (($GLOBALS['wp_object_cache'] ?? null) instanceof ObjectCache) {
            // Requests that passed the object cache have not told it what they changed.
            wp_cache_flush();
        }
        return $result;
    }

    /** @return ?array<string, mixed> the last result of `run` */
    public static function last(): ?array
    {
        $result = get_option(self::OPTION);
        return is_array($result) && is_array($result['ms'] ?? null) ? $result : null;
    }

    /**
     * What a response says about its origin.
     *
     * @param  array<string, string> $headers
     * @return array<string, bool>
     */
    private static function origins(string $kind, array $headers): array
    {
        if ($kind === 'visitor') {
            return ['edge' => preg_match('/\bpetasos\s*;\s*hit/i', $headers['cache-status'] ?? '') === 1];
        }
        return $kind === 'inside' ? ['pages' => Text::endsWith($headers['x-petasos-pages'] ?? '', 'hit')] : [];
    }

    /**
     * @param  ?list<string> $passes
     * @return array<string, string>
     */
    private static function fields(?array $passes): array
    {
        $value = $passes === null ? null : Probe::value($passes, time());
        // The cookie makes caches in front of WordPress pass the request. WordPress ignores it,
        // because its own cookie has another name.
        return $value === null ? [] : [Probe::FIELD => $value, 'Cookie' => 'wordpress_logged_in_petasos=probe'];
    }
}

<?php
/**
 * Requests of the site to its own front page, as visitors send them.
 *
 * Invariant: the only host is the site itself, no redirect is followed, and each request ends
 * within its limit. WordPress' own client is used, because it knows how the server
 * reaches the site.
 */

declare(strict_types=1);

namespace Petasos;

final class Loopback
{
    /** Longest time of one request, in seconds. */
    private const TIMEOUT = 10;

    /**
     * Requests the front page.
     *
     * @param  array<string, string> $headers
     * @param  float                 $limit longest time, in seconds; at most `TIMEOUT`
     * @return array{error: string, status: int, ms: float, headers: array<string, string>} names in
     *         lower case; `error` is empty if there was a response
     */
    public static function get(array $headers, float $limit = self::TIMEOUT): array
    {
        $begin = microtime(true);
        $answer = wp_remote_get(home_url('/'), [
            'timeout' => min(self::TIMEOUT, $limit),
            'redirection' => 0,
            'headers' => $headers,
            /** This filter of WordPress is for requests to the site itself. */
            'sslverify' => apply_filters('https_local_ssl_verify', false),
        ]);
        $ms = (microtime(true) - $begin) * 1000;
        if (is_wp_error($answer)) {
            return ['error' => $answer->get_error_message(), 'status' => 0, 'ms' => $ms, 'headers' => []];
        }
        $fields = [];
        foreach (wp_remote_retrieve_headers($answer) as $name => $value) {
            $fields[strtolower((string) $name)] = is_array($value) ? implode(', ', $value) : (string) $value;
        }
        return ['error' => '', 'status' => (int) wp_remote_retrieve_response_code($answer), 'ms' => $ms, 'headers' => $fields];
    }
}

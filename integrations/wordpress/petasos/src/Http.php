<?php
/**
 * Sends one HTTP request to a neighbouring server.
 *
 * WordPress' own client is made for requests to foreign servers: settings may send them through a
 * proxy, or forbid loopback addresses. An edge is part of the site.
 *
 * Invariant: a request ends within its limit, reads no more than its bound, and follows no
 * redirect. A line break in any part is an error, so that no caller can inject header lines. This
 * class does not use WordPress.
 */

declare(strict_types=1);

namespace Petasos;

final class Http
{
    /** Maximum number of bytes that are read of a response. */
    private const ANSWER_OCTETS_MAX = 1_000_000;

    /**
     * Sends a request and returns the response.
     *
     * @param  string                $base    `http://HOST:PORT` or `https://HOST:PORT`
     * @param  array<string, string> $headers
     * @param  float                 $limit   for the whole request, in seconds
     * @return array{status: int, headers: array<string, string>, body: string} names in lower case
     * @throws \RuntimeException with the cause
     */
    public static function ask(string $method, string $base, string $target, array $headers, string $body, float $limit): array
    {
        $end = microtime(true) + $limit;
        $url = parse_url($base);
        $scheme = $url['scheme'] ?? '';
        if (!isset($url['host']) || !in_array($scheme, ['http', 'https'], true)) {
            throw new \RuntimeException("\"$base\" is no address such as http://127.0.0.1:8080");
        }
        $authority = $url['host'] . ':' . ($url['port'] ?? ($scheme === 'https' ? 443 : 80));
        $stream = @stream_socket_client(($scheme === 'https' ? 'tls' : 'tcp') . "://$authority", $number, $why, $limit);
        if ($stream === false) {
            throw new \RuntimeException("cannot connect to $authority: $why");
        }
        try {
            self::send($stream, self::head($method, $target, $headers + ['Host' => $authority], $body), $end);
            return self::parse(self::receive($stream, $end, $method === 'HEAD'), $method);
        } finally {
            fclose($stream);
        }
    }

    /** @param array<string, string> $headers */
    private static function head(string $method, string $target, array $headers, string $body): string
    {
        $headers += ['Connection' => 'close', 'User-Agent' => 'Petasos for WordPress'];
        if ($body !== '') {
            $headers += ['Content-Length' => (string) strlen($body)];
        }
        if (preg_match('/[\x00-\x20\x7f]/', $method . $target) || preg_match('/[\x00-\x1f\x7f]/', implode(array_keys($headers)) . implode($headers))) {
            throw new \RuntimeException('a header would have a line break in it');
        }
        $head = "$method $target HTTP/1.1\r\n";
        foreach ($headers as $name => $value) {
            $head .= "$name: $value\r\n";
        }
        return "$head\r\n$body";
    }

    /** @param resource $stream */
    private static function send($stream, string $text, float $end): void
    {
        while ($text !== '') {
            self::patience($stream, $end);
            $count = @fwrite($stream, $text);
            if ($count === false || $count === 0) {
                throw new \RuntimeException('the connection ended before all was sent');
            }
            $text = substr($text, $count);
        }
    }

    /** @param resource $stream */
    private static function receive($stream, float $end, bool $is_head): string
    {
        $text = '';
        while (strlen($text) <= self::ANSWER_OCTETS_MAX && !feof($stream) && !self::isWhole($text, $is_head)) {
            self::patience($stream, $end);
            $part = @fread($stream, 65_536);
            if ($part === false || (stream_get_meta_data($stream)['timed_out'] ?? false)) {
                throw new \RuntimeException('no answer in time');
            }
            $text .= $part;
        }
        return $text;
    }

    /** Whether the response is complete, as far as its head tells. */
    private static function isWhole(string $text, bool $is_head): bool
    {
        $end = strpos($text, "\r\n\r\n");
        if ($end === false) {
            return false;
        }
        $length = preg_match('/\r\nContent-Length:\s*(\d+)/i', substr($text, 0, $end), $match) ? (int) $match[1] : PHP_INT_MAX;
        return $is_head || strlen($text) - $end - 4 >= $length;
    }

    /** @param resource $stream */
    private static function patience($stream, float $end): void
    {
        $left = $end - microtime(true);
        if ($left <= 0) {
            throw new \RuntimeException('no answer in time');
        }
        stream_set_timeout($stream, (int) $left, (int) (fmod($left, 1) * 1e6));
    }

    /** @return array{status: int, headers: array<string, string>, body: string} */
    private static function parse(string $text, string $method): array
    {
        [$head, $body] = explode("\r\n\r\n", $text, 2) + [1 => ''];
        $lines = explode("\r\n", $head);
        if (!preg_match('#^HTTP/1\.[01] (\d{3})\b#', (string) array_shift($lines), $match)) {
            throw new \RuntimeException('what answers there does not speak HTTP');
        }
        $headers = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $name = strtolower($name);
            $headers[$name] = isset($headers[$name]) ? $headers[$name] . ', ' . trim($value) : trim($value);
        }
        return ['status' => (int) $match[1], 'headers' => $headers, 'body' => $method === 'HEAD' ? '' : $body];
    }
}

<?php
/**
 * A finished page as it is kept: status, header lines, tags, body.
 *
 * Invariant: what `decode` gives was made by `encode`, whole; anything else is no page. It is data, never code: no part
 * of it is evaluated or unserialized.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class Page
{
    /**
     * @param string       $key     its address, so that one page is never taken for another
     * @param int          $number  the purge log's number when it began to be made
     * @param int          $made    when, in seconds
     * @param int          $expires until when it may be used, in seconds
     * @param list<string> $headers whole lines, without those that each answer makes anew
     * @param list<string> $tags
     */
    public function __construct(
        public readonly string $key,
        public readonly int $number,
        public readonly int $made,
        public readonly int $expires,
        public readonly array $headers,
        public readonly array $tags,
        public readonly string $body,
    ) {
    }

    public function encode(): string
    {
        $head = [
            'key' => $this->key, 'number' => $this->number, 'made' => $this->made, 'expires' => $this->expires,
            'headers' => $this->headers, 'tags' => $this->tags, 'octets' => strlen($this->body),
        ];
        return json_encode($head, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES) . "\n" . $this->body;
    }

    /** The page with this key in a text that `encode` made; null if there is none. */
    public static function decode(string $text, string $key): ?self
    {
        $end = strpos($text, "\n");
        $head = json_decode(substr($text, 0, $end === false ? 0 : $end), true);
        if (!is_array($head) || ($head['key'] ?? null) !== $key) {
            return null;
        }
        $body = substr($text, (int) $end + 1);
        foreach (['number', 'made', 'expires', 'octets'] as $name) {
            if (!is_int($head[$name] ?? null)) {
                return null;
            }
        }
        if (!is_array($head['headers'] ?? null) || !is_array($head['tags'] ?? null) || $head['octets'] !== strlen($body)) {
            return null;
        }
        $texts = static fn (array $list): array => array_values(array_filter($list, 'is_string'));
        return new self(
            $key,
            $head['number'],
            $head['made'],
            $head['expires'],
            $texts($head['headers']),
            $texts($head['tags']),
            $body,
        );
    }
}

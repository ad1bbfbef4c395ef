<?php
/**
 * A stored page: header lines, tags, body. Its status is always 200.
 *
 * Invariant: `decode` accepts only a complete result of `encode`. A page is data: no part of it is
 * evaluated or unserialized.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class Page
{
    public string $key;
    public int $number;
    public int $made;
    public int $expires;
    public array $headers;
    public array $tags;
    public string $body;

    /**
     * Makes a page.
     *
     * @param string       $key     its address, so that no page is mistaken for another
     * @param int          $number  number of the purge log when the generation of the page began
     * @param int          $made    time of generation, in seconds
     * @param int          $expires end of its lifetime, in seconds
     * @param list<string> $headers whole lines, without those that are generated for each response
     * @param list<string> $tags
     */
    public function __construct(
        string $key,
        int $number,
        int $made,
        int $expires,
        array $headers,
        array $tags,
        string $body
    ) {
        $this->key = $key;
        $this->number = $number;
        $this->made = $made;
        $this->expires = $expires;
        $this->headers = $headers;
        $this->tags = $tags;
        $this->body = $body;
    }

    public function encode(): string
    {
        $head = [
            'key' => $this->key, 'number' => $this->number, 'made' => $this->made, 'expires' => $this->expires,
            'headers' => $this->headers, 'tags' => $this->tags, 'octets' => strlen($this->body),
        ];
        return json_encode($head, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES) . "\n" . $this->body;
    }

    /** Decodes the page with this key; null if the text is invalid or belongs to another page. */
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

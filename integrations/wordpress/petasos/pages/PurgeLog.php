<?php
/**
 * What was purged, and when in the order of purges; against it a stored page is judged.
 *
 * Purges are numbered. A page carries the number of the last purge before it began to be made, and its tags; it may be
 * used if none of its tags was purged under a greater number. So a purge takes one write, whatever it meets, and a page
 * that was being made while its tag was purged is never used.
 *
 * Invariant: numbers only grow; what a bound makes the log forget counts as purged. Pure.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class PurgeLog
{
    /** Tags that are remembered; the oldest make way. */
    private const TAGS_MAX = 1000;

    /** @param array<string, int> $tags the number of each tag's last purge, oldest first */
    private function __construct(private int $number, private int $floor, private array $tags)
    {
    }

    /**
     * A log that remembers nothing, so that no older page may be used.
     *
     * @param int $microseconds the time, which is greater than any number of a log that was lost
     */
    public static function fresh(int $microseconds): self
    {
        return new self($microseconds, $microseconds, []);
    }

    /** The log in a text that `encode` made; null if it is none. */
    public static function decode(string $text): ?self
    {
        $value = json_decode($text, true);
        if (!is_array($value) || !is_int($value['number'] ?? null) || !is_int($value['floor'] ?? null)) {
            return null;
        }
        $tags = array_filter(is_array($value['tags'] ?? null) ? $value['tags'] : [], 'is_int');
        return new self($value['number'], $value['floor'], $tags);
    }

    public function encode(): string
    {
        return json_encode(
            ['number' => $this->number, 'floor' => $this->floor, 'tags' => (object) $this->tags],
            JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE
        );
    }

    /** The number for a page that begins to be made now. */
    public function number(): int
    {
        return $this->number;
    }

    /**
     * Notes a purge of all pages that have one of the tags; of all pages if there is none.
     *
     * @param list<string> $tags
     */
    public function purge(array $tags): void
    {
        ++$this->number;
        if ($tags === []) {
            $this->floor = $this->number;
            $this->tags = [];
            return;
        }
        foreach ($tags as $tag) {
            unset($this->tags[$tag]);
            $this->tags[$tag] = $this->number;
        }
        while (count($this->tags) > self::TAGS_MAX) {
            $oldest = array_key_first($this->tags);
            $this->floor = max($this->floor, $this->tags[$oldest]);
            unset($this->tags[$oldest]);
        }
    }

    /**
     * Whether a page may be used.
     *
     * @param int          $number what `number` was when it began to be made
     * @param list<string> $tags
     */
    public function allows(int $number, array $tags): bool
    {
        if ($number === $this->number) {
            return true;
        }
        if ($number < $this->floor || $number > $this->number) {
            return false;
        }
        foreach ($tags as $tag) {
            if (($this->tags[$tag] ?? 0) > $number) {
                return false;
            }
        }
        return true;
    }
}

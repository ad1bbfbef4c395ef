<?php
/**
 * The log of purges, which decides whether a stored page is still valid.
 *
 * Purges are numbered. A page carries its tags, and the number of the last purge before its
 * generation began. It is valid if none of its tags was purged with a greater number. So a purge is
 * a single write, however many pages it affects. A page that was being generated while one of its
 * tags was purged is never used.
 *
 * Invariant: numbers only grow. A tag that the log drops because of its bound counts as purged.
 * Pure.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class PurgeLog
{
    /** Maximum number of tags in the log; the oldest are dropped. */
    private const TAGS_MAX = 1000;

    private int $number;
    private int $floor;
    private array $tags;

    /** @param array<string, int> $tags number of each tag's last purge, oldest first */
    private function __construct(int $number, int $floor, array $tags)
    {
        $this->number = $number;
        $this->floor = $floor;
        $this->tags = $tags;
    }

    /**
     * An empty log, with which no older page is valid.
     *
     * @param int $microseconds current time, which is greater than any number of a lost log
     */
    public static function fresh(int $microseconds): self
    {
        return new self($microseconds, $microseconds, []);
    }

    /** Decodes a log; null if the text is invalid. */
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

    /** The number for a page whose generation begins now. */
    public function number(): int
    {
        return $this->number;
    }

    /**
     * Records a purge of all pages with one of the tags, or of all pages if there is no tag.
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
     * Whether a page is valid.
     *
     * @param int          $number value of `number` when its generation began
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

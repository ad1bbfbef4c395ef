<?php
/**
 * A bounded set of tags: those of a page, or those to purge.
 *
 * Invariant: shortening a list never loses a dependency. `post-7` belongs to the family `posts`. A
 * page with too many tags for a header field carries families instead, and a purge of `post-7` also
 * purges `posts`. A list that is too long even so has no value, and its page must not be shared.
 * Pure.
 */

declare(strict_types=1);

namespace Petasos;

final class TagList
{
    /** The tag of every page. */
    public const SITE = 'site';

    /** Longest tag, in bytes. The edge would refuse longer ones. */
    private const TAG_OCTETS_MAX = 128;

    /** First word of tags with a number or name, and their family. */
    private const FAMILIES = [
        'post' => 'posts', 'link' => 'posts', 'comments' => 'posts', 'term' => 'terms', 'list' => 'lists',
        'author' => 'authors', 'menu' => 'menus', 'tax' => 'terms',
    ];

    /** @var array<string, true> */
    private array $tags = [];

    private string $prefix;

    public function __construct(string $prefix = '')
    {
        $this->prefix = $prefix;
    }

    /** Adds tags. Characters other than letters, digits and `._:-` are replaced. */
    public function add(string ...$tags): void
    {
        foreach ($tags as $tag) {
            $word = preg_replace('/[^A-Za-z0-9._:-]/', '-', substr($this->prefix . $tag, 0, self::TAG_OCTETS_MAX));
            $this->tags[(string) $word] = true;
        }
    }

    public function isEmpty(): bool
    {
        return $this->tags === [];
    }

    public function count(): int
    {
        return count($this->tags);
    }

    /** @return list<string> */
    public function all(): array
    {
        return array_map('strval', array_keys($this->tags));
    }

    /**
     * The tags of a page as a header field value of at most `$octets_max` bytes. If necessary, the
     * largest families replace their members, one after the other. If that is still too long, there
     * is no value: a purge of a tag that the value left out would miss the page.
     */
    public function header(int $octets_max): ?string
    {
        $tags = $this->tags;
        while (strlen($text = implode(' ', array_keys($tags))) > $octets_max) {
            $members = [];
            foreach (array_keys($tags) as $tag) {
                $family = $this->family((string) $tag);
                if ($family !== null) {
                    $members[$family][] = $tag;
                }
            }
            if ($members === []) {
                return null;
            }
            uasort($members, static fn (array $a, array $b): int => count($b) <=> count($a));
            $largest = (string) array_key_first($members);
            $tags = array_diff_key($tags, array_flip($members[$largest])) + [$largest => true];
        }
        return $text;
    }

    /**
     * The tags to purge: all tags and their families, or the whole site if these are more than
     * `$count_max`.
     *
     * @return list<string>
     */
    public function purge(int $count_max): array
    {
        $tags = $this->tags;
        foreach (array_keys($this->tags) as $tag) {
            $family = $this->family((string) $tag);
            if ($family !== null) {
                $tags[$family] = true;
            }
        }
        if (isset($tags[$this->prefix . self::SITE]) || count($tags) > $count_max) {
            return [$this->prefix . self::SITE];
        }
        return array_map('strval', array_keys($tags));
    }

    private function family(string $tag): ?string
    {
        [$word, $rest] = explode('-', substr($tag, strlen($this->prefix)), 2) + [1 => ''];
        return $rest !== '' && isset(self::FAMILIES[$word]) ? $this->prefix . self::FAMILIES[$word] : null;
    }
}

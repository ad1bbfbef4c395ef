<?php
/**
 * A bounded set of tags: what a page is made of, or what has changed.
 *
 * Invariant: a bound never loses a tag's meaning. `post-7` belongs to the family `posts`; a page that has too many tags
 * for a header names families instead, and who purges `post-7` purges `posts` too. Pure.
 */

declare(strict_types=1);

namespace Petasos;

final class TagList
{
    /** The tag that every page has. */
    public const SITE = 'site';

    /** The longest tag; longer ones would be refused by the edge. In octets. */
    private const TAG_OCTETS_MAX = 128;

    /** The first word of a tag that has a number, and the family it belongs to. */
    private const FAMILIES = [
        'post' => 'posts', 'link' => 'posts', 'comments' => 'posts', 'term' => 'terms', 'list' => 'lists',
        'author' => 'authors', 'menu' => 'menus', 'tax' => 'terms',
    ];

    /** @var array<string, true> */
    private array $tags = [];

    public function __construct(private readonly string $prefix = '')
    {
    }

    /** What is no word of a header becomes one: anything but letters, digits and `._:-` is replaced. */
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
     * The tags of a page as a header's value of at most `$octets_max`: first as they are, then the largest families by
     * their name. What is too long even so has the one tag of the whole site.
     */
    public function header(int $octets_max): string
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
                return $this->prefix . self::SITE;
            }
            uasort($members, static fn (array $a, array $b): int => count($b) <=> count($a));
            $largest = (string) array_key_first($members);
            $tags = array_diff_key($tags, array_flip($members[$largest])) + [$largest => true];
        }
        return $text;
    }

    /**
     * What is to be purged: the tags and their families, or, of more than `$count_max`, the whole site.
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

<?php
/**
 * What a request has changed, collected, and sent once at its end: to the page cache, then to every edge.
 *
 * Invariant: the caches are told before the request's answer is complete, so that who is answered sees the change
 * everywhere. An edge that cannot be told fails nothing: it is noted, shown in wp-admin, and tried once more later; if
 * that fails too, the note stays until a purge succeeds.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Pages\PageCache;

final class Purges
{
    /** Options: when anything last changed, in seconds; and what could not be told, to whom, why, since when. */
    public const CHANGED = 'petasos_changed';
    public const FAILURE = 'petasos_failure';

    /** The event that tries again. */
    public const RETRY = 'petasos_retry';

    /** More tags than this are the whole site. */
    private const TAGS_MAX = 200;

    /** As many are collected before they are taken for the whole site. */
    private const COLLECTED_MAX = 10_000;

    private TagList $tags;

    public function __construct(private readonly string $prefix)
    {
        $this->tags = new TagList($prefix);
    }

    public function begin(): void
    {
        // Before WordPress ends its output buffers, so before the answer is complete.
        // What others change later is told at the very end.
        add_action('shutdown', $this->send(...), 0);
        add_action('shutdown', $this->send(...), PHP_INT_MAX);
        // For other plug-ins: do_action('petasos_purge', 'my-tag', ...).
        add_action('petasos_purge', fn (mixed ...$tags) => $this->add(...array_filter($tags, 'is_string')), 10, 100);
        add_action(self::RETRY, $this->retry(...));
        add_action('init', $this->announce(...), PHP_INT_MAX);
    }

    /** Tells the edge before the site that writes are purged from here, so that it need not guess what they change. */
    private function announce(): void
    {
        $is_read = in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true) && !is_admin();
        if ($is_read || headers_sent() || Edge::all() === [] || get_option(self::FAILURE) !== false) {
            return;
        }
        header('X-Petasos-Purges: 1');
    }

    public function add(string ...$tags): void
    {
        $this->tags->add(...$tags);
        if ($this->tags->count() > self::COLLECTED_MAX) {
            // An import changes more than is worth telling one by one.
            $this->tags = new TagList($this->prefix);
            $this->tags->add(TagList::SITE);
        }
    }

    /** Sends what was collected. */
    public function send(): void
    {
        if ($this->tags->isEmpty()) {
            return;
        }
        $tags = $this->tags->purge(Settings::number('PETASOS_PURGE_TAGS_MAX', self::TAGS_MAX, 1, 2000));
        $this->tags = new TagList($this->prefix);
        $this->tell($tags, false);
    }

    /**
     * Has every cache forget everything of this site. What is collected is part of that.
     *
     * @return bool whether all were told
     */
    public function everything(): bool
    {
        $this->tags = new TagList($this->prefix);
        return $this->tell([], false);
    }

    /** Tries again what could not be told. */
    private function retry(): void
    {
        $failure = get_option(self::FAILURE);
        if (is_array($failure) && ($failure['tries'] ?? 0) === 1) {
            $this->tell(array_values(array_filter((array) ($failure['tags'] ?? []), 'is_string')), true);
        }
    }

    /**
     * @param  list<string> $tags none: everything
     * @return bool whether all were told
     */
    private function tell(array $tags, bool $is_retry): bool
    {
        update_option(self::CHANGED, time(), true);
        $failures = PageCache::purge($tags) ? [] : ['page cache' => 'the purge could not be written down'];
        foreach (Edge::all() as $edge) {
            $why = $edge->purge($tags);
            if ($why !== null) {
                $failures[$edge->address] = $why;
            }
        }
        /**
         * Other caches may be told as well.
         *
         * @param list<string> $tags none: everything
         */
        do_action('petasos_purged', $tags);
        $failures === [] ? $this->succeed($tags, $is_retry) : $this->fail($failures, $tags, $is_retry);
        return $failures === [];
    }

    /** A note goes only when what it is about has been told. */
    private function succeed(array $tags, bool $is_retry): void
    {
        if (($is_retry || $tags === []) && get_option(self::FAILURE) !== false) {
            delete_option(self::FAILURE);
            wp_clear_scheduled_hook(self::RETRY);
        }
    }

    /** @param array<string, string> $failures why, by whom it is about */
    private function fail(array $failures, array $tags, bool $is_retry): void
    {
        $old = get_option(self::FAILURE);
        $old_tags = is_array($old) ? (array) ($old['tags'] ?? []) : null;
        // What failed before is told again with the rest; everything includes it.
        $all = $tags === [] || $old_tags === [] ? [] : array_values(array_unique([...($old_tags ?? []), ...$tags]));
        $failure = [
            'why' => $failures,
            'tags' => count($all) > self::TAGS_MAX ? [] : $all,
            'since' => is_array($old) ? (int) ($old['since'] ?? time()) : time(),
            'tries' => $is_retry ? 2 : 1,
        ];
        update_option(self::FAILURE, $failure, false);
        if (!$is_retry && !wp_next_scheduled(self::RETRY)) {
            wp_schedule_single_event(time() + Settings::number('PETASOS_RETRY_AFTER', 30, 0, 86_400), self::RETRY);
        }
    }
}

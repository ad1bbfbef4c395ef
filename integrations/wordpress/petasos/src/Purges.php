<?php
/**
 * Collects the tags of everything that a request changes, and purges them once at its end: first
 * from the page cache, then from every edge, then from a content delivery network.
 *
 * Invariant: purges are sent before the response is complete, so that its client sees the change
 * everywhere. An edge's error does not fail the request. It is stored, shown in wp-admin, and the
 * purge is tried again once. If that fails too, the error stays until everything is purged, or
 * until a later retry succeeds.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Pages\Address;
use Petasos\Pages\PageCache;

final class Purges
{
    /**
     * Options: the time of the last change, in seconds; and the failed purge with its edges, causes
     * and time.
     */
    public const CHANGED = 'petasos_changed';
    public const FAILURE = 'petasos_failure';

    /** Name of the webhook among the causes of a failure. */
    private const WEBHOOK = 'webhook';

    /** Event that tries a failed purge again. */
    public const RETRY = 'petasos_retry';

    /** A purge of more tags than this purges the whole site. */
    private const TAGS_MAX = 200;

    /** If more tags than this are collected, the whole site is purged. */
    private const COLLECTED_MAX = 10_000;

    private TagList $tags;

    private string $prefix;

    private OldUrls $old;

    public function __construct(string $prefix)
    {
        $this->prefix = $prefix;
        $this->tags = new TagList($prefix);
        $this->old = new OldUrls();
    }

    public function begin(): void
    {
        $this->old->begin();
        // Before WordPress ends its output buffers, so before the response is complete. The second
        // call sends tags that other shutdown actions have added.
        add_action('shutdown', \Closure::fromCallable([$this, 'send']), 0);
        add_action('shutdown', \Closure::fromCallable([$this, 'send']), PHP_INT_MAX);
        // For other plug-ins: do_action('petasos_purge', 'my-tag', ...).
        add_action('petasos_purge', fn (...$tags) => $this->add(...array_filter($tags, 'is_string')), 10, 100);
        add_action(self::RETRY, \Closure::fromCallable([$this, 'retry']));
        add_action('init', \Closure::fromCallable([$this, 'announce']), PHP_INT_MAX);
    }

    /**
     * Tells the edge that this plugin sends purges, so that the edge need not guess what a write
     * changes.
     */
    private function announce(): void
    {
        $is_read = in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true) && !is_admin();
        if ($is_read || headers_sent() || Edge::all() === [] || self::hasFailed(get_option(self::FAILURE))) {
            return;
        }
        header('X-Petasos-Purges: 1');
    }

    /**
     * Whether a purge of the page cache or an edge is pending. One of the webhook does not count,
     * because the edge cannot make up for it.
     *
     * @param mixed $failure value of the option
     */
    private static function hasFailed($failure): bool
    {
        return is_array($failure) && array_diff_key((array) ($failure['why'] ?? []), [self::WEBHOOK => '']) !== [];
    }

    public function add(string ...$tags): void
    {
        $this->tags->add(...$tags);
        if ($this->tags->count() > self::COLLECTED_MAX) {
            // An import changes too much to purge it tag by tag.
            $this->tags = new TagList($this->prefix);
            $this->tags->add(TagList::SITE);
        }
    }

    /** Sends the collected tags. */
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
     * Purges everything of this site from every cache. This includes the collected tags. On a
     * network, only its administrators purge the other sites too.
     *
     * @return bool whether all caches were reached
     */
    public function everything(): bool
    {
        $this->tags = new TagList($this->prefix);
        return $this->tell(current_user_can(Actions::rightToSettings()) ? [] : [$this->prefix . TagList::SITE], false);
    }

    /**
     * Purges one page from every cache.
     *
     * @return bool whether all caches were reached
     */
    public function page(string $url): bool
    {
        $address = Address::ofUrl($url);
        $done = $address === null || PageCache::purge([$address->tag]);
        foreach (Edge::all() as $edge) {
            $done = $edge->purgeUrl($url) === null && $done;
        }
        $done = Webhook::send([], [$url]) === null && $done;
        /** Runs after a purge of one page, so that plug-ins can purge other caches. */
        do_action('petasos_purged_url', $url);
        return $done;
    }

    /** Tries a failed purge again. */
    private function retry(): void
    {
        $failure = get_option(self::FAILURE);
        if (is_array($failure) && ($failure['tries'] ?? 0) === 1) {
            $this->tell(array_values(array_filter((array) ($failure['tags'] ?? []), 'is_string')), true);
        }
    }

    /**
     * Purges the page cache and all edges.
     *
     * @param  list<string> $tags empty for everything
     * @return bool whether all caches were reached
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
        // The request of a retry no longer knows the old URLs, so it names none.
        $why = Webhook::send($tags, $is_retry ? [] : Webhook::urlsOf($tags, $this->prefix, $this->old));
        $this->old->forget();
        if ($why !== null) {
            $failures[self::WEBHOOK] = $why;
        }
        /**
         * Runs after a purge, so that plug-ins can purge other caches.
         *
         * @param list<string> $tags empty for everything
         */
        do_action('petasos_purged', $tags);
        $failures === [] ? $this->succeed($tags, $is_retry) : $this->fail($failures, $tags, $is_retry);
        return $failures === [];
    }

    /** Deletes a stored failure if this purge included its tags. */
    private function succeed(array $tags, bool $is_retry): void
    {
        $is_all = $tags === [] || (is_multisite() && $tags === [$this->prefix . TagList::SITE]);
        if (($is_retry || $is_all) && get_option(self::FAILURE) !== false) {
            delete_option(self::FAILURE);
            wp_clear_scheduled_hook(self::RETRY);
        }
    }

    /** @param array<string, string> $failures causes, by edge or cache */
    private function fail(array $failures, array $tags, bool $is_retry): void
    {
        $old = get_option(self::FAILURE);
        $old_tags = is_array($old) ? (array) ($old['tags'] ?? []) : null;
        // The failed tags of earlier purges are tried again as well. A purge of everything includes
        // them.
        $all = $tags === [] || $old_tags === [] ? [] : array_values(array_unique([...($old_tags ?? []), ...$tags]));
        $failure = [
            // What failed before still has to be purged.
            'why' => $failures + (is_array($old) ? (array) ($old['why'] ?? []) : []),
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

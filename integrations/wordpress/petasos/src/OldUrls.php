<?php
/**
 * The public URLs that posts had before this request changed them.
 *
 * A post that was unpublished, renamed or deleted no longer knows its old URL when purges are sent,
 * but a content delivery network may still have the page there. Nothing is kept without a webhook
 * that names URLs.
 */

declare(strict_types=1);

namespace Petasos;

final class OldUrls
{
    /** More posts than this are not kept. A webhook would not name so many URLs anyway. */
    private const POSTS_MAX = 1000;

    /** @var array<int, array<string, true>> URLs by post */
    private array $urls = [];

    public function begin(): void
    {
        // All of these run before the change. Trashing renames the post before `pre_post_update`.
        // Permalinks can contain a category.
        $before = ['wp_trash_post', 'pre_post_update', 'before_delete_post', 'delete_attachment', 'add_term_relationship', 'delete_term_relationships'];
        foreach ($before as $name) {
            add_action($name, fn ($id) => $this->keep(get_post((int) $id)), 0);
        }
        add_action('post_updated', fn ($id, $after, $before) => $this->keep($before), 0, 3);
    }

    /** @return list<string> the old URLs of this post, none if it was not public */
    public function of(int $id): array
    {
        return array_map('strval', array_keys($this->urls[$id] ?? []));
    }

    public function forget(): void
    {
        $this->urls = [];
    }

    /** @param mixed $post */
    private function keep($post): void
    {
        if (!$post instanceof \WP_Post || count($this->urls) >= self::POSTS_MAX || !Webhook::namesUrls()) {
            return;
        }
        $url = Changes::isShown($post) && is_post_type_viewable($post->post_type) ? get_permalink($post) : false;
        if (is_string($url)) {
            $this->urls[$post->ID][$url] = true;
        }
    }
}

<?php
/**
 * Collects the tags of a page while WordPress generates it.
 *
 * - `site`: on all pages of this site
 * - `post-N`: the page shows content of post N
 * - `link-N`: the page links to post N, or shows its title
 * - `comments-N`: the page shows the comments of post N, or their number
 * - `term-N`, `author-N`: the page names term or user N
 * - `list-term-N`, `list-author-N`: the page lists posts of term or user N
 * - `list-date-Y[-M[-D]]`: the page lists the posts of this year, month or day
 * - `type-T`: the page lists posts of type T, like the front page; `type-comment`: comments
 * - `tax-T`: the page lists terms of taxonomy T
 * - `menu-N`, `menu`: the page shows this menu; any navigation
 * - `widgets`: the page shows widgets
 * - `front`, `home`, `feed`, `search`, `404`, `rest`: the page is of this kind
 *
 * Invariant: wherever WordPress shows an item, the item's tag is added. So a page whose tags were
 * not purged equals the page that would be generated now. Nothing is changed: each filter returns
 * its input.
 */

declare(strict_types=1);

namespace Petasos;

final class PageTags
{
    public TagList $tags;

    public function __construct(TagList $tags)
    {
        $this->tags = $tags;
    }

    public function begin(): void
    {
        $this->tags->add(TagList::SITE);
        // For other plug-ins: do_action('petasos_tag', 'my-tag', ...).
        add_action('petasos_tag', fn (...$tags) => $this->tags->add(...array_filter($tags, 'is_string')), 10, 100);
        add_action('pre_get_posts', \Closure::fromCallable([$this, 'query']), PHP_INT_MAX);
        $this->onPosts();
        $this->onLinks();
        $this->onOthers();
        add_action('rest_api_init', \Closure::fromCallable([$this, 'onRest']), PHP_INT_MAX);
    }

    /** Adds the tags of the main query, once WordPress has run it. */
    public function main(): void
    {
        $kinds = [
            'front' => is_front_page(), 'home' => is_home(), 'feed' => is_feed(), 'search' => is_search(), '404' => is_404(),
            'type-comment' => is_comment_feed(),
        ];
        $this->tags->add(...array_map('strval', array_keys(array_filter($kinds))));
        $object = get_queried_object();
        if ($object instanceof \WP_Post) {
            $this->tags->add("post-$object->ID", "link-$object->ID", "comments-$object->ID");
        } elseif ($object instanceof \WP_Term) {
            $this->tags->add("term-$object->term_id", "list-term-$object->term_id");
        } elseif ($object instanceof \WP_User) {
            $this->tags->add("author-$object->ID", "list-author-$object->ID");
        }
        if (is_date()) {
            // `m` may contain the whole date.
            $m = (string) get_query_var('m');
            $year = (int) (get_query_var('year') ?: substr($m, 0, 4));
            $month = (int) (get_query_var('monthnum') ?: substr($m, 4, 2));
            $day = (int) (get_query_var('day') ?: substr($m, 6, 2));
            $this->tags->add(self::date($year, $month, $day));
        }
    }

    /** Tag of a date archive. */
    public static function date(int $year, int $month = 0, int $day = 0): string
    {
        if ($month === 0) {
            return sprintf('list-date-%04d', $year);
        }
        return $day === 0 ? sprintf('list-date-%04d-%02d', $year, $month) : sprintf('list-date-%04d-%02d-%02d', $year, $month, $day);
    }

    /**
     * Adds the post types that a query lists. The main query of an archive is left out, because it
     * has a list tag.
     */
    private function query($query): void
    {
        if (!$query instanceof \WP_Query || $query->is_singular()) {
            return;
        }
        if ($query->is_main_query() && ($query->is_category() || $query->is_tag() || $query->is_tax() || $query->is_author() || $query->is_date())) {
            return;
        }
        $types = $query->get('post_type') ?: ($query->is_search() ? 'any' : 'post');
        $types = $types === 'any' ? get_post_types(['exclude_from_search' => false]) : (array) $types;
        foreach ($types as $type) {
            if (is_string($type) && is_post_type_viewable($type)) {
                $this->tags->add("type-$type");
            }
        }
    }

    /** Adds tags for the content of posts and comments. */
    private function onPosts(): void
    {
        $this->filter('the_posts', function ($posts): void {
            foreach (is_array($posts) ? $posts : [] as $post) {
                $this->post('post', $post);
            }
        });
        add_action('the_post', fn ($post) => $this->post('post', $post));
        $this->filter('get_the_excerpt', fn ($text, $post = null) => $this->post('post', $post));
        $this->filter('get_comments_number', fn ($count, $post = 0) => $this->post('comments', $post));
        $this->filter('the_comments', function ($comments): void {
            foreach (is_array($comments) ? $comments : [] as $comment) {
                if ($comment instanceof \WP_Comment) {
                    $this->tags->add("comments-$comment->comment_post_ID");
                }
            }
        });
        add_action('pre_get_comments', function ($query): void {
            $post = $query instanceof \WP_Comment_Query ? (int) ($query->query_vars['post_id'] ?? 0) : 0;
            $this->tags->add($post > 0 ? "comments-$post" : 'type-comment');
        }, PHP_INT_MAX);
    }

    /** Adds tags for links: they show a name, and their target may change. */
    private function onLinks(): void
    {
        foreach (['post_link', 'page_link', 'post_type_link', 'attachment_link', 'the_title', 'wp_get_attachment_image_src', 'wp_get_attachment_url'] as $name) {
            $this->filter($name, fn ($value, $post = 0) => $this->post('link', $post));
        }
        $this->filter('term_link', fn ($link, $term = null) => $this->term($term));
        $this->filter('author_link', fn ($link, $user = 0) => $this->author($user));
        $this->filter('the_author', fn () => $this->author($GLOBALS['authordata']->ID ?? 0));
        $this->filter('get_the_terms', function ($terms): void {
            array_map(\Closure::fromCallable([$this, 'term']), is_array($terms) ? $terms : []);
        });
        foreach (['display_name', 'nickname', 'description', 'first_name', 'last_name', 'user_url'] as $field) {
            $this->filter("get_the_author_$field", fn ($value, $user = 0) => $this->author($user));
        }
    }

    /** Adds tags for lists of terms, menus, widgets and blocks. */
    private function onOthers(): void
    {
        $this->filter('get_terms', function ($terms, $taxonomies = [], $arguments = []): void {
            $is_of_posts = is_array($arguments) && !empty($arguments['object_ids']);
            foreach ($is_of_posts ? [] : (array) $taxonomies as $taxonomy) {
                if (is_string($taxonomy) && is_taxonomy_viewable($taxonomy)) {
                    $this->tags->add("tax-$taxonomy");
                }
            }
        });
        $this->filter('get_archives_link', fn () => $this->tags->add('type-post'));
        $this->filter('wp_get_nav_menu_items', fn ($items, $menu = null) => $this->tags->add('menu-' . (int) ($menu->term_id ?? 0)));
        $this->filter('render_block_core/navigation', function ($text, $block = []): void {
            $post = is_array($block) ? (int) ($block['attrs']['ref'] ?? 0) : 0;
            $this->tags->add($post > 0 ? "menu-$post" : 'menu');
        });
        $this->filter('render_block_core/block', fn ($text, $block = []) => $this->post('post', is_array($block) ? ($block['attrs']['ref'] ?? 0) : 0));
        add_action('dynamic_sidebar_before', fn () => $this->tags->add('widgets'));
    }

    /** Adds tags for items in responses of the REST API. */
    private function onRest(): void
    {
        foreach (get_post_types(['show_in_rest' => true]) as $type) {
            $this->filter("rest_prepare_$type", fn ($answer, $post = null) => $this->post('post', $post));
        }
        foreach (get_taxonomies(['show_in_rest' => true]) as $taxonomy) {
            $this->filter("rest_prepare_$taxonomy", fn ($answer, $term = null) => $this->term($term));
        }
        $this->filter('rest_prepare_comment', fn ($answer, $comment = null) => $this->post('comments', (int) ($comment->comment_post_ID ?? 0)));
    }

    /** Listens to a filter, and returns the filter's input. */
    private function filter(string $name, callable $listen): void
    {
        add_filter($name, static function ($value = null, ...$more) use ($listen) {
            $listen($value, ...$more);
            return $value;
        }, PHP_INT_MAX, 3);
    }

    private function post(string $word, $post): void
    {
        $id = $post instanceof \WP_Post ? $post->ID : (is_numeric($post) ? (int) $post : 0);
        if ($id > 0) {
            $this->tags->add("$word-$id");
        }
    }

    private function term($term): void
    {
        if ($term instanceof \WP_Term && is_taxonomy_viewable($term->taxonomy)) {
            $this->tags->add("term-$term->term_id");
        }
    }

    private function author($user): void
    {
        if (is_numeric($user) && (int) $user > 0) {
            $this->tags->add('author-' . (int) $user);
        }
    }
}

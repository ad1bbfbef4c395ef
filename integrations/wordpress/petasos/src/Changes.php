<?php
/**
 * Finds out what changes on the site, as tags. The counterpart of `PageTags`.
 *
 * Invariant: every change that a visitor can see is tagged, and nothing else. A draft, a revision,
 * a comment that waits for approval and a save without changes have no tags. Changed content does
 * not affect pages that only link to it.
 */

declare(strict_types=1);

namespace Petasos;

final class Changes
{
    /** Options that every page may show. A name that ends in `_` is a prefix. */
    private const SITE_OPTIONS = [
        'blogname', 'blogdescription', 'siteurl', 'home', 'permalink_structure', 'category_base', 'tag_base',
        'posts_per_page', 'show_on_front', 'page_on_front', 'page_for_posts', 'date_format', 'time_format',
        'timezone_string', 'gmt_offset', 'start_of_week', 'WPLANG', 'blog_charset', 'blog_public', 'html_type',
        'show_avatars', 'avatar_default', 'avatar_rating', 'thread_comments', 'thread_comments_depth', 'page_comments',
        'comments_per_page', 'default_comments_page', 'comment_order', 'comment_registration', 'require_name_email',
        'close_comments_for_old_posts', 'close_comments_days_old', 'show_comments_cookies_opt_in', 'users_can_register',
        'site_icon', 'site_logo', 'stylesheet', 'template', 'active_plugins', 'wp_page_for_privacy_policy', 'theme_mods_',
    ];

    /** Post types that are part of every page. */
    private const SITE_TYPES = ['wp_template', 'wp_template_part', 'wp_global_styles', 'custom_css'];

    /** Fields of a post that determine its place in lists. */
    private const LIST_FIELDS = ['post_status', 'post_type', 'post_date', 'post_author', 'post_parent', 'menu_order', 'post_password'];

    /** Fields of a post that pages with a link to it may show. */
    private const LINK_FIELDS = ['post_status', 'post_type', 'post_title', 'post_name', 'post_parent', 'post_date', 'post_password'];

    /** @var array<int, ?string> number of posts of a term before a recount, by term_taxonomy_id */
    private array $counts = [];

    private Purges $purges;

    public function __construct(Purges $purges)
    {
        $this->purges = $purges;
    }

    public function begin(): void
    {
        $last = PHP_INT_MAX;
        add_action('post_updated', \Closure::fromCallable([$this, 'updated']), $last, 3);
        add_action('transition_post_status', \Closure::fromCallable([$this, 'moved']), $last, 3);
        add_action('before_delete_post', \Closure::fromCallable([$this, 'deleted']), $last, 2);
        add_action('delete_attachment', \Closure::fromCallable([$this, 'deleted']), $last, 2);
        foreach (['add_attachment', 'edit_attachment'] as $name) {
            add_action($name, \Closure::fromCallable([$this, 'attachment']), $last);
        }
        foreach (['added_post_meta', 'updated_post_meta', 'deleted_post_meta'] as $name) {
            add_action($name, \Closure::fromCallable([$this, 'meta']), $last, 3);
        }
        add_action('set_object_terms', \Closure::fromCallable([$this, 'assigned']), $last, 6);
        $this->onTerms($last);
        $this->onComments($last);
        $this->onUsers($last);
        $this->onMenus($last);
        foreach (['updated_option', 'added_option', 'deleted_option'] as $name) {
            add_action($name, \Closure::fromCallable([$this, 'option']), $last);
        }
        foreach (['switch_theme', 'customize_save_after', 'upgrader_process_complete'] as $name) {
            add_action($name, fn () => $this->purges->add(TagList::SITE), $last);
        }
    }

    private function updated(int $id, \WP_Post $after, \WP_Post $before): void
    {
        if (self::isShown($after) || self::isShown($before)) {
            $this->post($after, $before);
        }
    }

    /**
     * Handles posts that become visible or invisible. `updated` handles posts that stay visible.
     */
    private function moved(string $new, string $old, \WP_Post $post): void
    {
        if ($new !== $old && ($new === 'publish' || $old === 'publish')) {
            $this->post($post, null);
        }
    }

    private function deleted(int $id, ?\WP_Post $post = null): void
    {
        $post ??= get_post($id);
        if (!$post instanceof \WP_Post) {
            return;
        }
        if ($post->post_type === 'nav_menu_item') {
            foreach (wp_get_object_terms($id, 'nav_menu', ['fields' => 'ids']) ?: [] as $menu) {
                $this->purges->add('menu-' . (int) $menu);
            }
        } elseif (self::isShown($post)) {
            $this->post($post, null);
        }
    }

    private function attachment(int $id): void
    {
        $this->purges->add("post-$id", "link-$id");
    }

    /** Handles post meta, such as the featured image, except WordPress' internal fields. */
    private function meta($meta, int $id, string $key): void
    {
        $own = ['_edit_lock', '_edit_last', '_encloseme', '_pingme', '_wp_old_slug', '_wp_old_date', '_wp_trash_meta_status', '_wp_trash_meta_time', '_wp_desired_post_slug'];
        $post = get_post($id);
        if ($post instanceof \WP_Post && !in_array($key, $own, true) && (self::isShown($post) || $post->post_type === 'attachment')) {
            in_array($post->post_type, self::SITE_TYPES, true) ? $this->purges->add(TagList::SITE) : $this->purges->add("post-$id");
            if ($post->post_type === 'attachment') {
                $this->purges->add("link-$id");
            }
        }
    }

    /** Handles the terms of a post: the post shows them, and their archives list it. */
    private function assigned(int $id, $terms, array $new, string $taxonomy, $append, array $old): void
    {
        $changed = array_merge(array_diff($new, $old), array_diff($old, $new));
        $post = get_post($id);
        if ($changed === [] || !$post instanceof \WP_Post || !self::isShown($post) || !is_taxonomy_viewable($taxonomy)) {
            return;
        }
        $this->purges->add("post-$id");
        foreach ($changed as $number) {
            $term = get_term_by('term_taxonomy_id', (int) $number);
            if ($term instanceof \WP_Term) {
                $this->termLists($term->term_id, $taxonomy);
            }
        }
    }

    /**
     * Adds the tags of a post that is or was visible.
     *
     * @param ?\WP_Post $before the post before the change; null if it becomes visible or invisible
     */
    private function post(\WP_Post $post, ?\WP_Post $before): void
    {
        if ($post->post_type === 'wp_navigation') {
            $this->purges->add("menu-$post->ID", 'menu');
            return;
        }
        if ($post->post_type === 'wp_block') {
            $this->purges->add("post-$post->ID");
            return;
        }
        if (in_array($post->post_type, self::SITE_TYPES, true)) {
            $this->purges->add(TagList::SITE);
            return;
        }
        if (!is_post_type_viewable($post->post_type)) {
            return;
        }
        $this->purges->add("post-$post->ID", 'feed');
        if ($before === null || self::differ($post, $before, self::LINK_FIELDS)) {
            // The URL may start to work, or stop working.
            $this->purges->add("link-$post->ID", '404');
        }
        if ($before === null || self::differ($post, $before, self::LIST_FIELDS)) {
            $this->lists($post);
            $this->neighbours($post);
            if ($before !== null) {
                $this->lists($before);
                $this->neighbours($before);
            }
        }
        if ($before !== null && $before->comment_status !== $post->comment_status) {
            $this->purges->add("comments-$post->ID");
        }
    }

    /** Adds the tags of the lists that contain a post. */
    private function lists(\WP_Post $post): void
    {
        [$year, $month, $day] = array_map('intval', explode('-', substr($post->post_date, 0, 10)) + [1 => 0, 2 => 0]);
        $this->purges->add(
            "type-$post->post_type",
            "list-author-$post->post_author",
            PageTags::date($year),
            PageTags::date($year, $month),
            PageTags::date($year, $month, $day)
        );
        foreach (get_object_taxonomies($post->post_type) as $taxonomy) {
            if (is_taxonomy_viewable($taxonomy)) {
                foreach (wp_get_object_terms($post->ID, $taxonomy, ['fields' => 'ids']) ?: [] as $term) {
                    $this->termLists((int) $term, $taxonomy);
                }
            }
        }
    }

    /** Adds the list tags of a term and its ancestors, which include its posts. */
    private function termLists(int $term, string $taxonomy): void
    {
        foreach ([$term, ...get_ancestors($term, $taxonomy, 'taxonomy')] as $id) {
            $this->purges->add("list-term-$id");
        }
    }

    /** Adds the previous and the next post, because they link to this one. */
    private function neighbours(\WP_Post $post): void
    {
        $shown = $GLOBALS['post'] ?? null;
        $GLOBALS['post'] = $post;
        foreach ([true, false] as $is_previous) {
            $neighbour = get_adjacent_post(false, '', $is_previous);
            if ($neighbour instanceof \WP_Post) {
                $this->purges->add("post-$neighbour->ID");
            }
        }
        $GLOBALS['post'] = $shown;
    }

    private function onTerms(int $last): void
    {
        $named = function (int $id, $number, string $taxonomy): void {
            if (is_taxonomy_viewable($taxonomy)) {
                $this->purges->add("term-$id", "tax-$taxonomy", '404');
            }
        };
        add_action('edited_term', $named, $last, 3);
        // No page names a new term yet.
        add_action('created_term', function (int $id, $number, string $taxonomy): void {
            is_taxonomy_viewable($taxonomy) && $this->purges->add("tax-$taxonomy", '404');
        }, $last, 3);
        add_action('edited_term', \Closure::fromCallable([$this, 'termMoved']), $last, 3);
        add_action('pre_delete_term', function (int $id, string $taxonomy) use ($named): void {
            $named($id, 0, $taxonomy);
            $this->termMoved($id, 0, $taxonomy);
        }, $last, 2);
        // WordPress recounts the posts of terms at each save, although the number rarely changes.
        add_action('edit_term_taxonomy', function ($number): void {
            $this->counts[(int) $number] ??= self::count((int) $number);
        }, $last);
        add_action('edited_term_taxonomy', function ($number, $taxonomy): void {
            $taxonomy = is_object($taxonomy) ? $taxonomy->name : (string) $taxonomy;
            if (is_taxonomy_viewable($taxonomy) && ($this->counts[(int) $number] ?? null) !== self::count((int) $number)) {
                $this->purges->add("tax-$taxonomy");
            }
            unset($this->counts[(int) $number]);
        }, $last, 2);
    }

    /** Handles a term that may have moved to another place in the hierarchy, with its posts. */
    private function termMoved(int $id, $number, string $taxonomy): void
    {
        if ($taxonomy === 'nav_menu') {
            $this->purges->add("menu-$id");
        } elseif (is_taxonomy_viewable($taxonomy)) {
            $this->termLists($id, $taxonomy);
        }
    }

    private static function count(int $number): ?string
    {
        global $wpdb;
        return $wpdb->get_var($wpdb->prepare("SELECT count FROM $wpdb->term_taxonomy WHERE term_taxonomy_id = %d", $number));
    }

    private function onComments(int $last): void
    {
        $seen = function ($comment): void {
            if ($comment instanceof \WP_Comment) {
                $this->purges->add("comments-$comment->comment_post_ID", 'type-comment');
            }
        };
        $ifApproved = static function ($id, $comment = null) use ($seen): void {
            $comment = $comment instanceof \WP_Comment ? $comment : get_comment((int) $id);
            if ($comment instanceof \WP_Comment && $comment->comment_approved === '1') {
                $seen($comment);
            }
        };
        add_action('wp_insert_comment', $ifApproved, $last, 2);
        add_action('delete_comment', $ifApproved, $last, 2);
        add_action('edit_comment', static fn ($id) => $ifApproved($id), $last);
        add_action('transition_comment_status', static function (string $new, string $old, $comment) use ($seen): void {
            if ($new === 'approved' || $old === 'approved') {
                $seen($comment);
            }
        }, $last, 3);
    }

    private function onUsers(int $last): void
    {
        add_action('profile_update', fn (int $id) => $this->purges->add("author-$id"), $last);
        add_action('delete_user', function (int $id, $heir = null): void {
            $this->purges->add("author-$id", "list-author-$id", ...($heir === null ? [] : ["list-author-$heir"]));
        }, $last, 2);
    }

    private function onMenus(int $last): void
    {
        foreach (['wp_update_nav_menu', 'wp_update_nav_menu_item', 'wp_add_nav_menu_item', 'wp_delete_nav_menu'] as $name) {
            add_action($name, fn ($menu) => $this->purges->add('menu-' . (int) $menu), $last);
        }
    }

    private function option(string $name): void
    {
        if ($name === 'sidebars_widgets' || Text::startsWith($name, 'widget_')) {
            $this->purges->add('widgets');
        } elseif ($name === 'sticky_posts') {
            $this->purges->add('home', 'type-post');
        } elseif (in_array($name, ['posts_per_rss', 'rss_use_excerpt'], true)) {
            $this->purges->add('feed');
        } elseif (self::isOfSite($name)) {
            $this->purges->add(TagList::SITE);
        }
    }

    private static function isOfSite(string $name): bool
    {
        /**
         * Filters the options that every page may show. A plug-in with such an option adds it here.
         */
        foreach ((array) apply_filters('petasos_site_options', self::SITE_OPTIONS) as $known) {
            if ($known === $name || (Text::endsWith((string) $known, '_') && Text::startsWith($name, (string) $known))) {
                return true;
            }
        }
        return false;
    }

    /** Whether visitors can see a post, or pages contain it. */
    public static function isShown(\WP_Post $post): bool
    {
        return $post->post_status === 'publish' || ($post->post_type === 'attachment' && $post->post_status === 'inherit');
    }

    /** @param list<string> $fields */
    private static function differ(\WP_Post $one, \WP_Post $other, array $fields): bool
    {
        foreach ($fields as $field) {
            if ((string) $one->$field !== (string) $other->$field) {
                return true;
            }
        }
        return false;
    }
}

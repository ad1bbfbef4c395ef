<?php
/**
 * The functions of WordPress, Polylang and WooCommerce that the tests need, with `Site` as their
 * state. WooCommerce and Polylang themselves are not part of any test.
 */

declare(strict_types=1);

final class Site
{
    /** @var array<string, mixed> */
    public static array $options = [];

    /** @var array<string, list<mixed>> functions by hook */
    public static array $hooks = [];

    /** @var array<string, bool> answers of functions such as `is_cart`, by name */
    public static array $is = [];

    /** @var list<list<mixed>> hooks that ran, with their arguments */
    public static array $done = [];

    /** @var array<int, ?WP_Post> posts by number; null for one that was deleted */
    public static array $posts = [];

    public static bool $may_write = true;
    public static bool $is_network = false;

    public static function reset(): void
    {
        self::$options = self::$hooks = self::$is = self::$done = self::$posts = [];
        self::$may_write = true;
        self::$is_network = false;
        $_GET = $_COOKIE = [];
        Petasos\Settings::adopt([]);
    }
}

define('AUTH_KEY', str_repeat('k', 40));
define('AUTH_SALT', str_repeat('s', 40));
define('ABSPATH', directory() . '/');
mkdir(ABSPATH . 'wp-admin/includes', 0777, true);
file_put_contents(ABSPATH . 'wp-admin/includes/file.php', "<?php\n");
define('WP_CONTENT_DIR', ABSPATH . 'wp-content');
mkdir(WP_CONTENT_DIR);

function __(string $text, string $domain): string
{
    return $domain === 'petasos' ? $text : '';
}

function add_action(string $hook, callable $what, int $priority = 10, int $count = 1): void
{
    Site::$hooks[$hook][] = $what;
}

function add_filter(string $hook, $what, int $priority = 10, int $count = 1): void
{
    Site::$hooks[$hook][] = $what;
}

/** @return mixed */
function get_option(string $name, $default = false)
{
    return Site::$options[$name] ?? $default;
}

function update_option(string $name, $value, $autoload = null): bool
{
    Site::$options[$name] = $value;
    return true;
}

function delete_option(string $name): bool
{
    unset(Site::$options[$name]);
    return true;
}

/** @return mixed */
function get_site_option(string $name, $default = false)
{
    return get_option("network $name", $default);
}

function update_site_option(string $name, $value): bool
{
    return update_option("network $name", $value);
}

function wp_load_alloptions(): array
{
    return array_map('serialize', Site::$options);
}

/** @return mixed */
function maybe_unserialize(string $text)
{
    return unserialize($text);
}

function is_multisite(): bool
{
    return Site::$is_network;
}

function wp_clear_scheduled_hook(string $hook): int
{
    return 0;
}

function current_user_can(string $right): bool
{
    return !Site::$is_network || $right !== 'manage_network_options';
}

function home_url(string $path): string
{
    return "http://a.test$path";
}

function wp_parse_url(string $url): array
{
    return (array) parse_url($url);
}

function do_action(string $hook, ...$arguments): void
{
    Site::$done[] = [$hook, ...$arguments];
}

final class WP_Post
{
    public int $ID;
    public string $post_status;
    public string $post_name;
    public string $post_type;

    public function __construct(int $id, string $status = 'publish', string $name = '', string $type = 'post')
    {
        [$this->ID, $this->post_status, $this->post_name, $this->post_type] = [$id, $status, $name, $type];
    }
}

/** A post with a number below 90 exists, unless the test says otherwise. */
function get_post(int $id): ?WP_Post
{
    return array_key_exists($id, Site::$posts) ? Site::$posts[$id] : ($id < 90 ? new WP_Post($id) : null);
}

function get_post_type(int $id)
{
    $post = get_post($id);
    return $post === null ? false : $post->post_type;
}

function is_post_type_viewable(string $type): bool
{
    return !in_array($type, ['wp_block', 'product_variation'], true);
}

function is_post_publicly_viewable(int $id): bool
{
    $post = get_post($id);
    return $post !== null && is_post_type_viewable($post->post_type) && $post->post_status === 'publish';
}

/** @param int|WP_Post $post */
function get_permalink($post)
{
    $post = is_int($post) ? get_post($post) : $post;
    if ($post === null) {
        return false;
    }
    return 'http://a.test/' . ($post->post_status === 'publish' && $post->post_name !== '' ? "$post->post_name/" : "?p=$post->ID");
}

/** @return object|false the user, unless the number is 3 */
function get_userdata(int $id)
{
    return $id === 3 ? false : new stdClass();
}

/** User 1 has posts. */
function count_user_posts(int $id, array $types): string
{
    return $id === 1 && $types === ['post'] ? '5' : '0';
}

function get_post_types(array $which): array
{
    return ['post'];
}

function wp_next_scheduled(string $hook): bool
{
    return true;
}

function wp_date(string $format, int $time): string
{
    return gmdate($format, $time);
}

function esc_html(string $text): string
{
    return htmlspecialchars($text);
}

function esc_url(string $url): string
{
    return $url;
}

function admin_url(string $path): string
{
    return "http://a.test/wp-admin/$path";
}

function esc_html__(string $text, string $domain): string
{
    return __($text, $domain);
}

function esc_url_raw(string $url): string
{
    return $url;
}

function wp_unslash(string $text): string
{
    return $text;
}

function wp_validate_redirect(string $url, string $default): string
{
    return parse_url($url, PHP_URL_HOST) === 'a.test' ? $url : $default;
}

/** WordPress ends the request here. */
function wp_die(string $text): void
{
    throw new DomainException($text);
}

/** @return mixed */
function apply_filters(string $hook, $value)
{
    return $value;
}

/** An error of a site that cannot request itself. */
function wp_remote_get(string $url, array $arguments): object
{
    return new class {
        public function get_error_message(): string
        {
            return 'no loopback';
        }
    };
}

function is_wp_error($answer): bool
{
    return true;
}

function wp_cache_flush(): bool
{
    Site::$done[] = ['wp_cache_flush'];
    return true;
}

function wp_is_file_mod_allowed(string $context): bool
{
    return Site::$may_write;
}

function get_filesystem_method(array $arguments, string $context): string
{
    return 'direct';
}

function wp_get_post_parent_id(int $id): int
{
    return $id === 8 ? 7 : 0;
}

foreach (['is_cart', 'is_checkout', 'is_account_page', 'is_wc_endpoint_url', 'is_front_page', 'is_singular', 'is_category', 'is_tag', 'is_tax'] as $name) {
    eval("function $name(): bool { return Site::\$is['$name'] ?? false; }");
}

function pll_current_language(): string
{
    return 'de';
}

function WC(): object
{
    return new stdClass();
}

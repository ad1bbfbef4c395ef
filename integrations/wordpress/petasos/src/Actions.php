<?php
/**
 * What the buttons and forms do.
 *
 * Invariant: each action requires its nonce and the right to it. Purges and measurements need the
 * right to manage the site; files and settings that all sites of a network share need the right to
 * manage the network. Each action ends with a redirect.
 */

declare(strict_types=1);

namespace Petasos;

final class Actions
{
    /** Right of the screen and of purges. */
    public const RIGHT = 'manage_options';

    /** Query parameter with the result of a purge. */
    public const RESULT = 'petasos_purged';

    /** Query parameter with the result of another action. */
    public const DONE = 'petasos_done';

    /** Results of finding an edge, by the setting of its address. */
    public const FOUND = ['PETASOS_ADMIN' => 'found_admin', 'PETASOS_EDGE' => 'found_edge'];

    private Purges $purges;

    public function __construct(Purges $purges)
    {
        $this->purges = $purges;
    }

    public function begin(): void
    {
        foreach (['purge', 'measure', 'find', 'edge', 'webhook', 'exclude', 'install', 'remove'] as $name) {
            add_action("admin_post_petasos_$name", function () use ($name): void {
                self::check($name);
                $this->$name();
            });
        }
    }

    /** URL of the screen. */
    public static function screen(): string
    {
        return admin_url('tools.php?page=petasos');
    }

    /** The right to files and settings. */
    public static function rightToSettings(): string
    {
        return is_multisite() ? 'manage_network_options' : self::RIGHT;
    }

    /** Link that purges a page, or everything if `$url` is empty. */
    public static function purgeLink(string $url): string
    {
        $link = add_query_arg(['action' => 'petasos_purge', 'from' => 'bar', 'url' => rawurlencode($url)], admin_url('admin-post.php'));
        return wp_nonce_url($link, 'petasos_purge');
    }

    private static function check(string $name): void
    {
        $right = in_array($name, ['purge', 'measure'], true) ? self::RIGHT : self::rightToSettings();
        if (!current_user_can($right)) {
            wp_die(esc_html__('You may not do this.', 'petasos'), '', ['response' => 403]);
        }
        check_admin_referer("petasos_$name");
    }

    /** Whether the user may purge this page: on a network, one of the user's own site. */
    private static function isOwn(string $url): bool
    {
        return current_user_can(self::rightToSettings()) || Text::startsWith($url, home_url('/'));
    }

    private function purge(): void
    {
        $url = isset($_REQUEST['url']) && is_string($_REQUEST['url']) ? esc_url_raw(wp_unslash($_REQUEST['url'])) : '';
        if (($_REQUEST['url'] ?? '') !== '') {
            $url = preg_match('#^https?://#', $url) === 1 ? wp_validate_redirect($url, '') : '';
            if ($url === '' || !self::isOwn($url)) {
                wp_die(esc_html__('This is no page of this site.', 'petasos'), '', ['response' => 400]);
            }
        }
        $done = $url === '' ? $this->purges->everything() : $this->purges->page($url);
        $back = $url !== '' ? $url : (isset($_REQUEST['from']) ? (wp_get_referer() ?: self::screen()) : self::screen());
        self::go(add_query_arg(self::RESULT, $done ? 'yes' : 'no', $back));
    }

    private function measure(): void
    {
        $result = Measurement::run($this->purges);
        self::finish($result['error'] === '' ? 'measured' : 'unmeasured');
    }

    private function find(): void
    {
        $found = Edge::find();
        // The owner saves the address, because the token will be sent there.
        self::finish($found === null ? 'unfound' : self::FOUND[$found]);
    }

    /** Stores the addresses and the token of edges. */
    private function edge(): void
    {
        $values = Stored::read();
        $is_valid = true;
        foreach (['PETASOS_ADMIN', 'PETASOS_EDGE'] as $name) {
            $words = preg_split('/[\s,]+/', self::field($name), -1, PREG_SPLIT_NO_EMPTY) ?: [];
            $good = array_filter($words, static fn (string $word): bool => preg_match('#^https?://[A-Za-z0-9._\[\]:-]+/?$#D', $word) === 1);
            $is_valid = $is_valid && count($good) === count($words);
            $values[$name] = implode(' ', $good);
        }
        $token = self::field('PETASOS_TOKEN');
        if ($token !== '' || self::field('forget') !== '') {
            $values['PETASOS_TOKEN'] = preg_match('/^[\x21-\x7e]{1,500}$/D', $token) === 1 ? $token : '';
        }
        Stored::write(array_filter($values, static fn ($value): bool => $value !== ''));
        self::finish($is_valid ? 'saved' : 'partly');
    }

    /** Stores the webhook of a content delivery network. */
    private function webhook(): void
    {
        $values = Stored::read();
        $url = self::field('PETASOS_WEBHOOK_URL');
        $method = self::field('PETASOS_WEBHOOK_METHOD');
        $field = self::field('PETASOS_WEBHOOK_HEADER');
        $is_method = preg_match('/^(?:[A-Z]{3,10})?$/D', $method) === 1;
        $is_valid = ($url === '' || Webhook::isUrl($url)) && $is_method && Webhook::isField($field);
        if ($url !== ($values['PETASOS_WEBHOOK_URL'] ?? '')) {
            // The stored secret belongs to the host of the old URL.
            unset($values['PETASOS_WEBHOOK_HEADER']);
        }
        $values['PETASOS_WEBHOOK_URL'] = $url === '' || Webhook::isUrl($url) ? $url : '';
        $values['PETASOS_WEBHOOK_METHOD'] = $is_method ? $method : '';
        if ($field !== '' && Webhook::isField($field)) {
            $values['PETASOS_WEBHOOK_HEADER'] = $field;
        }
        foreach (['PETASOS_WEBHOOK_BODY', 'PETASOS_WEBHOOK_BODY_ALL'] as $name) {
            $values[$name] = substr(self::field($name), 0, 4000);
        }
        Stored::write(array_filter($values, static fn ($value): bool => $value !== ''));
        delete_option(Webhook::FAILURE);
        self::finish($is_valid ? 'saved' : 'partly');
    }

    private function exclude(): void
    {
        [$paths, $bad_paths] = Exclusions::paths(self::field('PETASOS_EXCLUDE_PATHS'));
        [$cookies, $bad_cookies] = Exclusions::cookies(self::field('PETASOS_EXCLUDE_COOKIES'));
        [$noise, $bad_noise] = Exclusions::cookies(self::field('PETASOS_NOISE_COOKIES'));
        $values = ['PETASOS_EXCLUDE_PATHS' => $paths, 'PETASOS_EXCLUDE_COOKIES' => $cookies, 'PETASOS_NOISE_COOKIES' => $noise];
        Stored::write(array_filter($values + Stored::read(), static fn ($value): bool => $value !== []));
        $left = DropIns::installed() === [] ? [] : DropIns::writeSettings();
        // Pages that are excluded now may be stored.
        $this->purges->everything();
        $bad = array_merge($bad_paths, $bad_cookies, $bad_noise);
        $left === [] ? self::finish($bad === [] ? 'saved' : 'partly') : self::tell($left);
    }

    private function install(): void
    {
        $kind = self::field('kind');
        $layer = self::layer();
        if ($layer === 'objects' && !in_array($kind, DropIns::kinds(), true)) {
            self::finish('partly');
        }
        self::tell(DropIns::install($layer, $kind));
    }

    private function remove(): void
    {
        self::tell(DropIns::remove(self::layer()));
    }

    private static function layer(): string
    {
        $layer = self::field('layer');
        return isset(DropIns::NAMES[$layer]) ? $layer : 'pages';
    }

    private static function field(string $name): string
    {
        return isset($_POST[$name]) && is_string($_POST[$name]) ? trim(wp_unslash($_POST[$name])) : '';
    }

    /**
     * Shows what is left to do by hand, or that all is done.
     *
     * @param list<string> $left
     */
    private static function tell(array $left): void
    {
        if ($left === []) {
            self::finish('saved');
        }
        $text = '<p>' . esc_html__('Some steps are left for you:', 'petasos') . '</p>';
        foreach ($left as $step) {
            $text .= '<p style="white-space: pre-wrap">' . esc_html($step) . '</p>';
        }
        $text .= sprintf('<p><a href="%s">%s</a></p>', esc_url(self::screen()), esc_html__('Back to Petasos', 'petasos'));
        wp_die($text, esc_html__('Petasos', 'petasos'), ['response' => 200]);
    }

    private static function finish(string $result): void
    {
        self::go(add_query_arg(self::DONE, $result, self::screen()));
    }

    private static function go(string $url): void
    {
        wp_safe_redirect($url);
        exit;
    }
}

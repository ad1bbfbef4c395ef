<?php
/**
 * Purges in the bar at the top of each page: this page, or everything.
 *
 * Invariant: only users who may manage the site see it. Each link has a nonce.
 */

declare(strict_types=1);

namespace Petasos;

final class AdminBar
{
    public static function begin(): void
    {
        add_action('admin_bar_menu', [self::class, 'add'], 100);
        add_filter('removable_query_args', static fn ($names): array => array_merge((array) $names, [Actions::RESULT]));
    }

    /** @param mixed $bar WordPress' bar */
    public static function add($bar): void
    {
        if (!$bar instanceof \WP_Admin_Bar || !current_user_can(Actions::RIGHT)) {
            return;
        }
        $results = ['yes' => __('Petasos: purged', 'petasos'), 'no' => __('Petasos: not purged everywhere', 'petasos')];
        $result = isset($_GET[Actions::RESULT]) && is_string($_GET[Actions::RESULT]) ? $_GET[Actions::RESULT] : '';
        $bar->add_node(['id' => 'petasos', 'title' => esc_html($results[$result] ?? 'Petasos'), 'href' => Actions::screen()]);
        if (!is_admin()) {
            $here = (is_ssl() ? 'https://' : 'http://') . wp_unslash((string) ($_SERVER['HTTP_HOST'] ?? '')) . wp_unslash((string) ($_SERVER['REQUEST_URI'] ?? '/'));
            $here = remove_query_arg(Actions::RESULT, esc_url_raw($here));
            $bar->add_node(['id' => 'petasos-page', 'parent' => 'petasos', 'title' => esc_html__('Purge this page', 'petasos'), 'href' => Actions::purgeLink($here)]);
        }
        $bar->add_node(['id' => 'petasos-all', 'parent' => 'petasos', 'title' => esc_html__('Purge everything', 'petasos'), 'href' => Actions::purgeLink('')]);
    }
}

<?php
/**
 * The administrator's view: a page under Tools with the state of the edges and a button that purges
 * everything, and a notice after a failed purge.
 *
 * Invariant: only users who may manage the site see or do anything. The button requires its nonce.
 * All output is escaped where it is printed.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Objects\ObjectCache;

final class Screen
{
    private const SLUG = 'petasos';
    private const ACTION = 'petasos_purge';
    private const RIGHT = 'manage_options';

    private Purges $purges;

    public function __construct(Purges $purges)
    {
        $this->purges = $purges;
    }

    public function begin(): void
    {
        add_action('admin_menu', function (): void {
            add_management_page('Petasos', 'Petasos', self::RIGHT, self::SLUG, \Closure::fromCallable([$this, 'print']));
        });
        add_action('admin_post_' . self::ACTION, \Closure::fromCallable([$this, 'purge']));
        add_action('admin_notices', \Closure::fromCallable([$this, 'notice']));
    }

    private function purge(): void
    {
        if (!current_user_can(self::RIGHT)) {
            wp_die(esc_html('You may not purge.'), '', ['response' => 403]);
        }
        check_admin_referer(self::ACTION);
        $done = $this->purges->everything();
        wp_safe_redirect(add_query_arg(['page' => self::SLUG, 'purged' => $done ? 'yes' : 'no'], admin_url('tools.php')));
        exit;
    }

    private function notice(): void
    {
        $failure = current_user_can(self::RIGHT) ? get_option(Purges::FAILURE) : false;
        if (!is_array($failure)) {
            return;
        }
        $whys = [];
        foreach ((array) ($failure['why'] ?? []) as $whom => $why) {
            $whys[] = "$whom: " . (is_string($why) ? $why : '?');
        }
        $more = ($failure['tries'] ?? 1) > 1 ? 'It was tried again, in vain; purge everything once the edge is back.' : 'It will be tried again.';
        $since = wp_date('Y-m-d H:i:s', (int) ($failure['since'] ?? 0));
        printf(
            '<div class="notice notice-error petasos-failure"><p>%s <a href="%s">%s</a></p></div>',
            esc_html("Petasos could not be told of a change ($since): " . implode('; ', $whys) . ". Visitors may see what is outdated. $more"),
            esc_url(admin_url('tools.php?page=' . self::SLUG)),
            esc_html('Details')
        );
    }

    private function print(): void
    {
        if (!current_user_can(self::RIGHT)) {
            return;
        }
        echo '<div class="wrap"><h1>Petasos</h1>';
        $purged = isset($_GET['purged']) && is_string($_GET['purged']) ? $_GET['purged'] : '';
        if ($purged === 'yes' || $purged === 'no') {
            $text = $purged === 'yes' ? 'Everything was purged.' : 'Not every cache could be told.';
            printf('<div class="notice notice-%s"><p>%s</p></div>', $purged === 'yes' ? 'success' : 'error', esc_html($text));
        }
        $this->printEdges();
        $this->printCaches();
        printf('<form method="post" action="%s">', esc_url(admin_url('admin-post.php')));
        printf('<input type="hidden" name="action" value="%s">', esc_attr(self::ACTION));
        wp_nonce_field(self::ACTION);
        submit_button('Purge everything');
        echo '</form></div>';
    }

    private function printEdges(): void
    {
        $edges = Edge::all();
        if ($edges === []) {
            printf('<p>%s</p>', esc_html('No edge is named: define PETASOS_EDGE or PETASOS_ADMIN in wp-config.php.'));
        }
        foreach ($edges as $edge) {
            printf('<h2>%s</h2><table class="widefat striped petasos-edge"><tbody>', esc_html($edge->address));
            foreach ($edge->state() as $label => $value) {
                self::row($label, $value);
            }
            echo '</tbody></table>';
        }
    }

    private function printCaches(): void
    {
        echo '<h2>', esc_html('In WordPress'), '</h2><table class="widefat striped"><tbody>';
        $changed = (int) get_option(Purges::CHANGED, 0);
        self::row('last purge', $changed === 0 ? 'none yet' : (string) wp_date('Y-m-d H:i:s', $changed));
        self::row('page cache', Settings::pages());
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        if ($cache instanceof ObjectCache) {
            $map = defined('PETASOS_OBJECTS') && is_array(PETASOS_OBJECTS) ? PETASOS_OBJECTS : ['*' => 'none'];
            $words = array_map(static fn ($group, $kind): string => "$group: " . (is_string($kind) ? $kind : '?'), array_keys($map), $map);
            self::row('object cache', implode(', ', $words));
            foreach ($cache->router->failures() as $kind => $why) {
                self::row("$kind is gone", $why);
            }
        } else {
            self::row('object cache', 'off');
        }
        echo '</tbody></table>';
    }

    private static function row(string $label, string $value): void
    {
        printf('<tr><th scope="row">%s</th><td>%s</td></tr>', esc_html($label), esc_html($value));
    }
}

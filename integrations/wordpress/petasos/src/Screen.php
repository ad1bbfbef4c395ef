<?php
/**
 * The administrator's view: a page under Tools with the ladder of the site, the edges, exclusions
 * and purges, and a notice after a failed purge.
 *
 * Invariant: only users who may manage the site see anything. All output is escaped where it is
 * printed. The token is never printed.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Objects\ObjectCache;

final class Screen
{
    private const SLUG = 'petasos';

    public function begin(): void
    {
        add_action('admin_menu', function (): void {
            add_management_page('Petasos', 'Petasos', Actions::RIGHT, self::SLUG, \Closure::fromCallable([$this, 'print']));
        });
        add_action('admin_notices', \Closure::fromCallable([$this, 'notice']));
    }

    private function notice(): void
    {
        if (!current_user_can(Actions::RIGHT)) {
            return;
        }
        $this->printResult();
        $failure = get_option(Purges::FAILURE);
        if (!is_array($failure)) {
            return;
        }
        $whys = [];
        foreach ((array) ($failure['why'] ?? []) as $whom => $why) {
            $whys[] = "$whom: " . (is_string($why) ? $why : '?');
        }
        $more = ($failure['tries'] ?? 1) > 1
            ? __('It was tried again, in vain; purge everything once the edge is back.', 'petasos')
            : __('It will be tried again.', 'petasos');
        $since = wp_date('Y-m-d H:i:s', (int) ($failure['since'] ?? 0));
        /* translators: 1: a time, 2: causes */
        $text = sprintf(__('Petasos could not be told of a change (%1$s): %2$s. Visitors may see what is outdated.', 'petasos'), $since, implode('; ', $whys));
        printf(
            '<div class="notice notice-error petasos-failure"><p>%s <a href="%s">%s</a></p></div>',
            esc_html("$text $more"),
            esc_url(Actions::screen()),
            esc_html__('Details', 'petasos')
        );
    }

    /** Shows the result of the last action, which the redirect has in its query. */
    private function printResult(): void
    {
        $texts = [
            'yes' => ['success', __('Purged from every cache.', 'petasos')],
            'no' => ['error', __('Not every cache could be told.', 'petasos')],
            'saved' => ['success', __('Done.', 'petasos')],
            'partly' => ['warning', __('Some entries were not accepted, because they have characters or lengths that are not allowed.', 'petasos')],
            'measured' => ['success', __('The site was measured.', 'petasos')],
            'unmeasured' => ['warning', __('The site could not be measured: see below.', 'petasos')],
            'found_admin' => ['success', __('An edge was found. Check its address below, and save it.', 'petasos')],
            'found_edge' => ['success', __('An edge was found. Check its address below, and save it.', 'petasos')],
            'unfound' => ['warning', __('No edge was found, on this machine or in front of the site.', 'petasos')],
        ];
        foreach ([Actions::RESULT, Actions::DONE] as $name) {
            $result = isset($_GET[$name]) && is_string($_GET[$name]) ? $_GET[$name] : '';
            if (isset($texts[$result])) {
                [$kind, $text] = $texts[$result];
                printf('<div class="notice notice-%s is-dismissible petasos-result"><p>%s</p></div>', esc_attr($kind), esc_html($text));
            }
        }
    }

    private function print(): void
    {
        if (!current_user_can(Actions::RIGHT)) {
            return;
        }
        echo '<div class="wrap petasos"><h1>Petasos</h1>';
        Forms::printStyle();
        $layer = isset($_GET['layer']) && is_string($_GET['layer']) ? $_GET['layer'] : '';
        if (isset(DropIns::NAMES[$layer]) && current_user_can(Actions::rightToSettings())) {
            Forms::printQuestion($layer, isset($_GET['remove']));
            echo '</div>';
            return;
        }
        LadderTable::print();
        Forms::printPurge();
        $this->printEdges();
        if (current_user_can(Actions::rightToSettings())) {
            Forms::printEdge();
            Forms::printWebhook();
            Forms::printExclusions();
        }
        $this->printCaches();
        echo '</div>';
    }

    private function printEdges(): void
    {
        printf('<h2>%s</h2>', esc_html__('Edge', 'petasos'));
        $edges = Edge::all();
        if ($edges === []) {
            printf('<p>%s</p>', esc_html__('No edge is named. The layers inside WordPress work without it.', 'petasos'));
            printf('<p>%s</p>', esc_html__('If Petasos runs on this machine, press "Find the edge". If it runs on another one, enter below the address where it serves visitors, as seen from this server, and the token from the file that token_file names in its settings.', 'petasos'));
        }
        foreach ($edges as $edge) {
            printf('<h3>%s</h3><table class="widefat striped petasos-edge"><tbody>', esc_html($edge->address));
            foreach ($edge->state() as $label => $value) {
                self::row($label, $value);
            }
            $why = $edge->refusesPurges();
            /* translators: %s: an error */
            self::row(__('purges', 'petasos'), $why === null ? __('accepted', 'petasos') : sprintf(__('refused: %s. Enter the token from the file that token_file names in the settings of the edge.', 'petasos'), $why));
            echo '</tbody></table>';
        }
    }

    private function printCaches(): void
    {
        printf('<h2>%s</h2><table class="widefat striped"><tbody>', esc_html__('In WordPress', 'petasos'));
        $changed = (int) get_option(Purges::CHANGED, 0);
        self::row(__('last purge', 'petasos'), $changed === 0 ? __('none yet', 'petasos') : (string) wp_date('Y-m-d H:i:s', $changed));
        self::row(__('page cache', 'petasos'), Settings::pages());
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        if ($cache instanceof ObjectCache) {
            $map = Settings::objects();
            $words = array_map(static fn ($group, $kind): string => "$group: " . (is_string($kind) ? $kind : '?'), array_keys($map), $map);
            self::row(__('object cache', 'petasos'), implode(', ', $words));
            foreach ($cache->router->failures() as $kind => $why) {
                /* translators: %s: a kind of server */
                self::row(sprintf(__('%s is gone', 'petasos'), $kind), $why);
            }
        } else {
            self::row(__('object cache', 'petasos'), 'off');
        }
        echo '</tbody></table>';
    }

    private static function row(string $label, string $value): void
    {
        printf('<tr><th scope="row">%s</th><td>%s</td></tr>', esc_html($label), esc_html($value));
    }
}

<?php
/**
 * Tests in WordPress' own screen Site Health: the layers inside PHP at once, and the edge by a
 * request of its own, because it may take seconds.
 *
 * Invariant: a test changes nothing. The route of the REST API answers only users who may see the
 * screen.
 */

declare(strict_types=1);

namespace Petasos;

final class SiteHealth
{
    private const ROUTE = 'petasos/v1';

    public static function begin(): void
    {
        add_filter('site_status_tests', [self::class, 'add']);
        add_action('rest_api_init', static function (): void {
            register_rest_route(self::ROUTE, '/health', [
                'methods' => 'GET',
                'callback' => [self::class, 'edge'],
                'permission_callback' => static fn (): bool => current_user_can('view_site_health_checks'),
            ]);
        });
    }

    /**
     * @param  mixed $tests tests of WordPress
     * @return array<string, mixed>
     */
    public static function add($tests): array
    {
        $tests = (array) $tests;
        foreach (['opcode', 'pages', 'objects'] as $layer) {
            $tests['direct']["petasos_$layer"] = ['label' => "Petasos: $layer", 'test' => static fn (): array => self::layer($layer)];
        }
        $tests['direct']['petasos_shop'] = ['label' => 'Petasos: shop', 'test' => [self::class, 'shop']];
        $tests['direct']['petasos_webhook'] = ['label' => 'Petasos: webhook', 'test' => [self::class, 'webhook']];
        $tests['async']['petasos_edge'] = [
            'label' => 'Petasos: edge',
            'test' => rest_url(self::ROUTE . '/health'),
            'has_rest' => true,
            'async_direct_test' => [self::class, 'edge'],
        ];
        return $tests;
    }

    /** @return array<string, mixed> */
    private static function layer(string $layer): array
    {
        $row = Ladder::rows(Ladder::states(), null, DropIns::kinds())[$layer];
        $is_good = in_array($row['state'], ['on', 'foreign'], true);
        /* translators: %s: a layer */
        $good = sprintf(__('%s: on', 'petasos'), $row['title']);
        /* translators: %s: a layer */
        $bad = $row['state'] === 'off' ? sprintf(__('%s: off', 'petasos'), $row['title']) : sprintf(__('%s: needs your attention', 'petasos'), $row['title']);
        return self::result("petasos_$layer", $is_good ? 'good' : 'recommended', $is_good ? $good : $bad, $row['what'] . ' ' . $row['fix']);
    }

    /** @return array<string, mixed> */
    public static function shop(): array
    {
        if (!Shop::pricesByAddress()) {
            return self::result('petasos_shop', 'good', __('No setting of a shop keeps pages from being cached', 'petasos'), __('Cart, checkout and account are never cached.', 'petasos'));
        }
        return self::result(
            'petasos_shop',
            'recommended',
            __('WooCommerce keeps every page from being cached', 'petasos'),
            __('It computes prices from the address of each visitor. Under WooCommerce > Settings > General, set the default customer location to "Geolocate (with page caching support)".', 'petasos')
        );
    }

    /** @return array<string, mixed> */
    public static function webhook(): array
    {
        $failure = get_option(Webhook::FAILURE);
        if (Settings::text('PETASOS_WEBHOOK_URL') === '') {
            return self::result('petasos_webhook', 'good', __('No content delivery network is told of purges', 'petasos'), __('If a network in front of Petasos keeps pages, name its webhook under Tools > Petasos.', 'petasos'));
        }
        if (!is_array($failure)) {
            return self::result('petasos_webhook', 'good', __('The content delivery network accepts purges', 'petasos'), __('The last purge was accepted, or there was none yet.', 'petasos'));
        }
        $text = sprintf('%s: %s', wp_date('Y-m-d H:i:s', (int) ($failure['since'] ?? 0)), is_string($failure['why'] ?? null) ? $failure['why'] : '?');
        return self::result('petasos_webhook', 'critical', __('The content delivery network does not accept purges', 'petasos'), __('Visitors may see what is outdated.', 'petasos') . " $text");
    }

    /** @return array<string, mixed> */
    public static function edge(): array
    {
        $edges = Edge::all();
        if ($edges === []) {
            return self::result('petasos_edge', 'good', __('Petasos works without an edge', 'petasos'), __('If Petasos runs in front of this site, name it under Tools > Petasos.', 'petasos'));
        }
        $whys = [];
        foreach ($edges as $edge) {
            $why = $edge->refusesPurges();
            if ($why !== null) {
                $whys[] = "$edge->address: $why";
            }
        }
        return $whys === []
            ? self::result('petasos_edge', 'good', __('The edge accepts purges', 'petasos'), __('Changes reach visitors at once.', 'petasos'))
            : self::result('petasos_edge', 'critical', __('The edge does not accept purges', 'petasos'), __('Visitors may see what is outdated.', 'petasos') . ' ' . implode('; ', $whys));
    }

    /** @return array<string, mixed> in the form of WordPress */
    private static function result(string $test, string $status, string $label, string $text): array
    {
        return [
            'label' => $label,
            'status' => $status,
            'badge' => ['label' => __('Performance', 'petasos'), 'color' => 'blue'],
            'description' => '<p>' . esc_html(trim($text)) . '</p>',
            'actions' => $status === 'good' ? '' : sprintf('<p><a href="%s">Petasos</a></p>', esc_url(Actions::screen())),
            'test' => $test,
        ];
    }
}

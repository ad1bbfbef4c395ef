<?php
/**
 * The forms of the screen, and the question before files are changed.
 *
 * Invariant: see `Screen`. Each form has its own nonce.
 */

declare(strict_types=1);

namespace Petasos;

final class Forms
{
    /** Styles, which WordPress' own lack: bars, and a table that fits a narrow screen. */
    public static function printStyle(): void
    {
        echo '<style>
.petasos .widefat th { font-weight: 600; }
.petasos .widefat th p { font-weight: 400; margin: 4px 0 0; max-width: 34em; }
.petasos-ladder th[scope=row] { width: 34%; }
.petasos-bar { display: grid; grid-template-columns: 4.5em minmax(60px, 1fr) 6em; align-items: center; gap: 6px; margin: 2px 0; }
.petasos-bar i { display: block; height: 10px; background: #2271b1; min-width: 2px; }
.petasos-bar span:last-child { text-align: right; white-space: nowrap; }
#petasos-measure { margin-top: 12px; }
.petasos-state { font-weight: 600; }
.petasos-is-on { color: #006b20; }
.petasos-is-broken, .petasos-is-old { color: #b32d2e; }
.petasos form p.description { margin: 4px 0 10px; }
.petasos textarea, .petasos input.regular-text { width: 100%; max-width: 40em; }
.petasos code, .petasos td { overflow-wrap: anywhere; }
@media (max-width: 782px) {
.petasos-ladder thead { display: none; }
.petasos-ladder tr, .petasos-ladder th[scope=row], .petasos-ladder td { display: block; width: auto; }
}
</style>';
    }

    /** A button that is a form of its own. */
    public static function printButton(string $action, string $label, string $description): void
    {
        self::open($action);
        printf('<button class="button" id="petasos-%s">%s</button>', esc_attr($action), esc_html($label));
        if ($description !== '') {
            printf('<p class="description">%s</p>', esc_html($description));
        }
        echo '</form>';
    }

    public static function printPurge(): void
    {
        printf('<h2>%s</h2>', esc_html__('Purge', 'petasos'));
        self::printButton('purge', __('Purge everything', 'petasos'), __('WordPress purges what you change by itself. Use this after changes past WordPress, such as those of files. The bar at the top of each page purges that page alone.', 'petasos'));
    }

    /** Asks before a layer is installed or removed, and says what that changes. */
    public static function printQuestion(string $layer, bool $removes): void
    {
        $steps = $removes ? self::removal($layer) : self::installation($layer);
        printf('<h2>%s</h2><p>%s</p><ul class="ul-disc">', esc_html($removes ? __('Remove this layer?', 'petasos') : __('Install this layer?', 'petasos')), esc_html__('Petasos will:', 'petasos'));
        foreach ($steps as $step) {
            printf('<li>%s</li>', esc_html($step));
        }
        echo '</ul>';
        self::open($removes ? 'remove' : 'install');
        printf('<input type="hidden" name="layer" value="%s">', esc_attr($layer));
        if ($layer === 'objects' && !$removes) {
            self::printKinds();
        }
        printf(
            '<p><button class="button button-primary" id="petasos-do">%s</button> <a class="button" href="%s">%s</a></p></form>',
            esc_html($removes ? __('Remove', 'petasos') : __('Install', 'petasos')),
            esc_url(Actions::screen()),
            esc_html__('Leave it as it is', 'petasos')
        );
    }

    public static function printEdge(): void
    {
        self::open('edge');
        self::printField('PETASOS_ADMIN', __('Admin address of the edge, if PHP reaches it', 'petasos'), 'http://127.0.0.1:8081');
        self::printField('PETASOS_EDGE', __('Otherwise the address where the edge serves visitors', 'petasos'), 'http://10.0.0.2:8080');
        $is_there = Settings::text('PETASOS_TOKEN') !== '';
        printf('<p><label>%s<br><input class="regular-text" type="password" autocomplete="off" name="PETASOS_TOKEN" value="" placeholder="%s"%s></label></p>', esc_html__('Token of the edge', 'petasos'), esc_attr($is_there ? __('stored; leave empty to keep it', 'petasos') : ''), disabled(Settings::isFixed('PETASOS_TOKEN'), true, false));
        if ($is_there && !Settings::isFixed('PETASOS_TOKEN')) {
            printf('<p><label><input type="checkbox" name="forget" value="1"> %s</label></p>', esc_html__('Remove the stored token', 'petasos'));
        }
        if (Settings::isFixed('PETASOS_TOKEN')) {
            printf('<p class="description">%s</p>', esc_html__('The token is set in wp-config.php or the environment. It is sent only to addresses that are set there too.', 'petasos'));
        }
        printf('<p><button class="button" id="petasos-edge-save">%s</button></p></form>', esc_html__('Save the edge', 'petasos'));
    }

    public static function printWebhook(): void
    {
        printf('<h2 id="petasos-webhook-title">%s</h2><p>%s</p>', esc_html__('Content delivery network', 'petasos'), esc_html__('Only if a network in front of Petasos keeps pages. It is told of each purge by one request, after Petasos.', 'petasos'));
        self::open('webhook');
        self::printText('PETASOS_WEBHOOK_URL', __('URL of the request', 'petasos'), 'https://api.example.net/purge');
        self::printText('PETASOS_WEBHOOK_METHOD', __('Method', 'petasos'), 'POST');
        $is_there = Settings::text('PETASOS_WEBHOOK_HEADER') !== '';
        printf('<p><label>%s<br><input class="regular-text" type="password" autocomplete="off" name="PETASOS_WEBHOOK_HEADER" value="" placeholder="%s"%s></label></p>', esc_html__('Header field with the secret of the network', 'petasos'), esc_attr($is_there ? __('stored; leave empty to keep it', 'petasos') : 'Authorization: Bearer ...'), disabled(Settings::isFixed('PETASOS_WEBHOOK_HEADER'), true, false));
        self::printText('PETASOS_WEBHOOK_BODY', __('Content for changed pages: {urls} and {tags} become lists', 'petasos'), '{"files": {urls}}');
        self::printText('PETASOS_WEBHOOK_BODY_ALL', __('Content for a purge of everything', 'petasos'), '{"purge_everything": true}');
        printf('<p><button class="button" id="petasos-webhook">%s</button></p></form>', esc_html__('Save the webhook', 'petasos'));
    }

    public static function printExclusions(): void
    {
        printf('<h2 id="petasos-exclusions">%s</h2>', esc_html__('Exclusions', 'petasos'));
        self::open('exclude');
        self::printList('PETASOS_EXCLUDE_PATHS', __('Paths that are never cached, one a line', 'petasos'), __('Such as /members/*. The star stands for any text. Cart, checkout and account of WooCommerce need no line.', 'petasos'));
        self::printList('PETASOS_EXCLUDE_COOKIES', __('Cookies that make all pages of their visitor personal', 'petasos'), __('Unknown cookies do so anyway. A line wins over the list of harmless cookies. An edge needs such a cookie in its own settings too.', 'petasos'));
        self::printList('PETASOS_NOISE_COOKIES', __('Cookies that never change a page', 'petasos'), __('Visitors with these cookies may receive cached pages. Cookies of sessions and shops are ignored here.', 'petasos'));
        printf('<p><button class="button" id="petasos-exclude">%s</button></p></form>', esc_html__('Save the exclusions', 'petasos'));
    }

    private static function open(string $action): void
    {
        printf('<form method="post" action="%s"><input type="hidden" name="action" value="%s">', esc_url(admin_url('admin-post.php')), esc_attr("petasos_$action"));
        wp_nonce_field("petasos_$action");
    }

    private static function printField(string $name, string $label, string $example): void
    {
        $value = implode(' ', Settings::words($name));
        if ($value === '' && ($_GET[Actions::DONE] ?? '') === Actions::FOUND[$name]) {
            $value = Edge::found($name);
        }
        printf(
            '<p><label>%s<br><input class="regular-text" type="text" name="%s" value="%s" placeholder="%s"%s></label>%s</p>',
            esc_html($label),
            esc_attr($name),
            esc_attr($value),
            esc_attr($example),
            disabled(Settings::isFixed($name), true, false),
            esc_html(Settings::isFixed($name) ? ' ' . __('(set in wp-config.php or the environment)', 'petasos') : '')
        );
    }

    private static function printText(string $name, string $label, string $example): void
    {
        printf(
            '<p><label>%s<br><input class="regular-text" type="text" name="%s" value="%s" placeholder="%s"%s></label></p>',
            esc_html($label),
            esc_attr($name),
            esc_attr(Settings::text($name)),
            esc_attr($example),
            disabled(Settings::isFixed($name), true, false)
        );
    }

    private static function printList(string $name, string $label, string $help): void
    {
        printf(
            '<p><label>%s<br><textarea name="%s" rows="3"%s>%s</textarea></label></p><p class="description">%s</p>',
            esc_html($label),
            esc_attr($name),
            disabled(Settings::isFixed($name), true, false),
            esc_textarea(implode("\n", Settings::words($name))),
            esc_html($help)
        );
    }

    private static function printKinds(): void
    {
        $texts = [
            'redis' => __('Redis: a server. On shared hosting, other customers may be able to read and delete its objects, unless it has a password.', 'petasos'),
            'memcached' => __('memcached: a server. On shared hosting, other customers may be able to read and delete its objects.', 'petasos'),
            'apcu' => __('APCu: memory of PHP on this web server. WP-CLI and cron jobs of the system do not see it, so visitors may see what is outdated after their changes. Other sites of the same PHP-FPM may be able to read and delete its objects.', 'petasos'),
        ];
        $proposed = DropIns::proposed(DropIns::kinds());
        foreach (DropIns::kinds() as $kind) {
            printf('<p><label><input type="radio" name="kind" required value="%s"%s> %s</label></p>', esc_attr($kind), checked($kind, $proposed, false), esc_html($texts[$kind]));
        }
    }

    /** @return list<string> */
    private static function installation(string $layer): array
    {
        /* translators: %s: a path */
        $steps = [sprintf(__('write %s, a file that WordPress loads by its name', 'petasos'), DropIns::target($layer))];
        /* translators: %s: a path */
        $steps[] = sprintf(__('write its settings to %s', 'petasos'), WP_CONTENT_DIR . '/petasos-settings.php');
        if ($layer === 'pages') {
            /* translators: %s: a path */
            $steps[] = sprintf(__('keep pages in %s', 'petasos'), WP_CONTENT_DIR . '/cache/petasos');
            if (!ConfigFile::isOn()) {
                /* translators: 1: a line of PHP, 2: a path */
                $steps[] = sprintf(__('add the line %1$s to %2$s', 'petasos'), ConfigFile::LINE, ConfigFile::path() ?? 'wp-config.php');
            }
        }
        return $steps;
    }

    /** @return list<string> */
    private static function removal(string $layer): array
    {
        /* translators: %s: a path */
        $steps = [sprintf(__('delete %s', 'petasos'), DropIns::target($layer))];
        if ($layer === 'pages') {
            $steps[] = __('delete the stored pages', 'petasos');
            $steps[] = __('remove its line from wp-config.php, if it has added one', 'petasos');
        }
        return $steps;
    }
}

<?php
/**
 * Prints the ladder of the site: a row for each layer, with bars on one linear scale.
 *
 * Invariant: see `Screen`.
 */

declare(strict_types=1);

namespace Petasos;

final class LadderTable
{
    /** A layer that leaves more than this share of the time makes no clear difference. */
    private const CLEAR = 0.9;

    public static function print(): void
    {
        $measured = Measurement::last();
        $rows = Ladder::rows(Ladder::states(), $measured, DropIns::kinds());
        $longest = 0.0;
        foreach ($rows as $row) {
            $longest = max($longest, (float) $row['without'], (float) $row['with']);
        }
        printf('<h2>%s</h2>', esc_html__('The ladder of this site', 'petasos'));
        self::printSummary($measured);
        echo '<div class="petasos-scroll"><table class="widefat striped petasos-ladder"><thead><tr>';
        foreach ([__('Layer', 'petasos'), __('State', 'petasos'), __('Front page without and with it', 'petasos'), __('What to do', 'petasos')] as $title) {
            printf('<th scope="col">%s</th>', esc_html($title));
        }
        echo '</tr></thead><tbody>';
        foreach ($rows as $layer => $row) {
            self::printRow($layer, $row, $longest);
        }
        echo '</tbody></table></div>';
        Forms::printButton('measure', __('Measure', 'petasos'), __('Sends about 20 requests for the front page to this site itself, which takes up to 20 seconds.', 'petasos'));
    }

    /** @param ?array<string, mixed> $measured */
    private static function printSummary(?array $measured): void
    {
        if ($measured === null) {
            $text = __('Not measured yet.', 'petasos');
        } elseif ($measured['error'] !== '') {
            /* translators: %s: an error */
            $text = sprintf(__('Not measurable here: WordPress cannot request its own front page (%s). The layers work all the same.', 'petasos'), $measured['error']);
        } else {
            $when = (string) wp_date('Y-m-d H:i', (int) $measured['at']);
            /* translators: 1: a time, 2: milliseconds */
            $text = sprintf(__('Measured at %1$s: a visitor waits %2$s ms for the front page, seen from this server.', 'petasos'), $when, number_format_i18n((float) ($measured['ms']['visitor'] ?? 0), 1));
        }
        printf('<p class="petasos-summary">%s</p>', esc_html($text));
    }

    /** @param array<string, mixed> $row */
    private static function printRow(string $layer, array $row, float $longest): void
    {
        $states = [
            'on' => __('on', 'petasos'),
            'off' => __('off', 'petasos'),
            'foreign' => __('of another plugin', 'petasos'),
            'broken' => __('broken', 'petasos'),
            'old' => __('outdated', 'petasos'),
        ];
        printf('<tr id="petasos-%s"><th scope="row">%s<p>%s</p></th>', esc_attr($layer), esc_html($row['title']), esc_html($row['what']));
        printf('<td><span class="petasos-state petasos-is-%s">%s</span></td><td>', esc_attr($row['state']), esc_html($states[$row['state']] ?? $row['state']));
        if ($row['with'] === null) {
            echo esc_html($row['state'] === 'off' ? __('not measured while it is off', 'petasos') : __('not measurable here', 'petasos'));
        } else {
            self::printBar(__('without', 'petasos'), (float) $row['without'], $longest);
            self::printBar(__('with', 'petasos'), (float) $row['with'], $longest);
            if ($row['with'] > self::CLEAR * $row['without']) {
                printf('<p class="description">%s</p>', esc_html__('No clear difference for this page.', 'petasos'));
            }
        }
        printf('</td><td>%s', esc_html($row['fix']));
        if (isset(DropIns::NAMES[$layer]) && current_user_can(Actions::rightToSettings())) {
            self::printLink($layer, $row['state']);
        } elseif ($layer === 'edge' && $row['state'] === 'off' && current_user_can(Actions::rightToSettings())) {
            Forms::printButton('find', __('Find the edge', 'petasos'), '');
        }
        echo '</td></tr>';
    }

    private static function printBar(string $label, float $ms, float $longest): void
    {
        $percent = $longest > 0 ? max(1, (int) round(100 * $ms / $longest)) : 1;
        printf(
            '<div class="petasos-bar"><span>%s</span><span><i style="width: %d%%"></i></span><span>%s</span></div>',
            esc_html($label),
            (int) $percent,
            /* translators: %s: a number */
            esc_html(sprintf(__('%s ms', 'petasos'), number_format_i18n($ms, 1)))
        );
    }

    private static function printLink(string $layer, string $state): void
    {
        $is_installed = in_array($layer, DropIns::installed(), true);
        if ($state === 'foreign' || ($layer === 'objects' && !$is_installed && DropIns::kinds() === [])) {
            return;
        }
        if ($state !== 'on') {
            printf(' <a class="button" href="%s">%s</a>', esc_url(add_query_arg('layer', $layer, Actions::screen())), esc_html__('Install', 'petasos'));
        }
        if ($is_installed) {
            $link = add_query_arg(['layer' => $layer, 'remove' => 1], Actions::screen());
            printf(' <a class="button" href="%s">%s</a>', esc_url($link), esc_html__('Remove', 'petasos'));
        } elseif ($state === 'on') {
            echo esc_html__('Set up in wp-config.php.', 'petasos');
        }
    }
}

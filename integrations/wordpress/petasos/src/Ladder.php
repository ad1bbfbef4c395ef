<?php
/**
 * The layers of this site, from PHP outwards: on or off, what each brings, and what to do.
 *
 * Invariant: a time is only stated if it was measured. `rows` is pure but for the texts'
 * translation.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Objects\ObjectCache;

final class Ladder
{
    /**
     * The state of each layer, as `rows` expects it.
     *
     * @return array<string, string> `on`, `off`, `foreign`, `broken` or `old`, by layer
     */
    public static function states(): array
    {
        $cache = $GLOBALS['wp_object_cache'] ?? null;
        $pages = DropIns::state('pages');
        if ($pages === 'own') {
            $pages = Settings::pages() !== 'off' && ConfigFile::isOn() ? 'on' : 'off';
        }
        $objects = DropIns::state('objects');
        if ($cache instanceof ObjectCache) {
            $failed = $cache->router->failures() !== [];
            $objects = $failed ? 'broken' : ($objects === 'old' ? 'old' : 'on');
        } elseif ($objects !== 'foreign') {
            $objects = 'off';
        }
        $opcode = extension_loaded('Zend OPcache') && filter_var(ini_get('opcache.enable'), FILTER_VALIDATE_BOOLEAN);
        return [
            'opcode' => $opcode ? 'on' : 'off',
            'pages' => $pages === 'missing' ? 'off' : $pages,
            'objects' => $objects,
            'edge' => Edge::all() === [] ? 'off' : 'on',
        ];
    }

    /**
     * The rows of the screen.
     *
     * @param  array<string, string>     $states
     * @param  ?array<string, mixed>     $measured result of `Measurement::run`
     * @param  list<string>              $kinds    object servers that PHP can reach
     * @return array<string, array<string, mixed>> by layer: `title`, `what`, `state`, `fix`,
     *         and the times `without` and `with` in milliseconds or null
     */
    public static function rows(array $states, ?array $measured, array $kinds): array
    {
        $rows = [];
        foreach (self::texts() as $layer => [$title, $what]) {
            $state = $states[$layer] ?? 'off';
            $rows[$layer] = [
                'title' => $title,
                'what' => $what,
                'state' => $state,
                'fix' => self::fix($layer, $state, $kinds),
            ] + self::times($layer, $state, $measured);
        }
        return $rows;
    }

    /**
     * The times of a layer.
     *
     * @param  ?array<string, mixed> $measured
     * @return array{without: ?float, with: ?float}
     */
    private static function times(string $layer, string $state, ?array $measured): array
    {
        $ms = (array) ($measured['ms'] ?? []);
        $pairs = [
            'opcode' => ['compiled', 'plain'],
            'objects' => ['plain', 'generated'],
            'pages' => ['generated', 'inside'],
            'edge' => ['inside', 'visitor'],
        ];
        [$without, $with] = array_map(static fn (string $kind): ?float => isset($ms[$kind]) ? (float) $ms[$kind] : null, $pairs[$layer]);
        $is_seen = ['pages' => !empty($measured['pages']), 'edge' => !empty($measured['edge'])][$layer] ?? true;
        return $state === 'on' && $is_seen && $without !== null && $with !== null
            ? ['without' => $without, 'with' => $with]
            : ['without' => null, 'with' => null];
    }

    /** @return array<string, array{0: string, 1: string}> title and explanation */
    private static function texts(): array
    {
        return [
            'opcode' => [__('Opcode cache', 'petasos'), __('PHP keeps the compiled program, instead of reading and compiling all files of WordPress for each page.', 'petasos')],
            'objects' => [__('Object cache', 'petasos'), __('WordPress keeps options, posts and menus in memory, instead of asking the database for them. This also helps pages that are not cached, such as those of logged-in users.', 'petasos')],
            'pages' => [__('Page cache', 'petasos'), __('WordPress answers visitors with finished pages, without database, plugins and theme.', 'petasos')],
            'edge' => [__('Edge', 'petasos'), __('Petasos in front of the web server answers visitors without PHP. It needs a server of your own; shared hosting works without it.', 'petasos')],
        ];
    }

    /** @param list<string> $kinds */
    private static function fix(string $layer, string $state, array $kinds): string
    {
        if ($layer === 'opcode' && $state === 'off') {
            return __('Switch OPcache on where your host lets you choose PHP extensions, or ask your host to set opcache.enable=1. No other change brings as much.', 'petasos');
        }
        if ($state === 'foreign') {
            return __('Another plugin has this layer. Petasos leaves it alone; deactivate that plugin if you want to use Petasos here.', 'petasos');
        }
        if ($state === 'old') {
            return __('The installed file is of another version. Install it again.', 'petasos');
        }
        if ($state === 'broken') {
            return __('The object server does not answer. Start it, or remove this layer.', 'petasos');
        }
        if ($layer === 'objects' && $state === 'off' && $kinds === []) {
            return __('PHP reaches no Redis or memcached and has no APCu. Ask your host for Redis, or for the PHP extension APCu.', 'petasos');
        }
        if ($layer === 'edge' && $state === 'off') {
            return __('If Petasos runs in front of this site, let the plugin look for it, or enter its address below.', 'petasos');
        }
        return $state === 'on' ? '' : __('Install it with the button.', 'petasos');
    }
}

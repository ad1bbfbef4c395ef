<?php
/**
 * Installs and removes the drop-ins: page cache and object cache.
 *
 * Invariant: a drop-in of another plugin is never changed. What was installed here can be removed
 * without a trace. Each step that PHP may not do is returned as a sentence for the owner.
 */

declare(strict_types=1);

namespace Petasos;

use Petasos\Pages\FileStore;
use Petasos\Pages\PageCache;

final class DropIns
{
    /** Layers and the files in wp-content by which WordPress finds them. */
    public const NAMES = ['pages' => 'advanced-cache.php', 'objects' => 'object-cache.php'];

    /** The file of settings for the drop-ins, which run before the database is there. */
    private const SETTINGS = 'petasos-settings.php';

    /** Settings that the drop-ins read. The token of an edge is not among them. */
    private const PASSED_ON = [
        'PETASOS_PAGES', 'PETASOS_OBJECTS', 'PETASOS_OBJECTS_PREFIX', 'PETASOS_EXCLUDE_PATHS', 'PETASOS_EXCLUDE_COOKIES',
        'PETASOS_NOISE_COOKIES',
    ];

    /** @var ?list<string> result of `kinds` */
    private static ?array $kinds = null;

    /** The state of a drop-in: `missing`, `own`, `old` (of another version) or `foreign`. */
    public static function state(string $layer): string
    {
        $file = self::target($layer);
        if (!is_file($file)) {
            return 'missing';
        }
        $text = (string) file_get_contents($file);
        if (!self::isOwn($text)) {
            return 'foreign';
        }
        return $text === (string) file_get_contents(self::source($layer)) ? 'own' : 'old';
    }

    /** Whether a drop-in is one of Petasos. uninstall.php relies on this too. */
    public static function isOwn(string $text): bool
    {
        return strpos(substr($text, 0, 200), "Petasos'") !== false;
    }

    /** Path of a drop-in in wp-content. */
    public static function target(string $layer): string
    {
        return WP_CONTENT_DIR . '/' . self::NAMES[$layer];
    }

    /** Path of a drop-in in the plugin. */
    public static function source(string $layer): string
    {
        return dirname(__DIR__) . '/drop-ins/' . self::NAMES[$layer];
    }

    /**
     * Installs a layer.
     *
     * @param string $kind of object server; not used for pages
     * @return list<string> sentences about what the owner must do by hand; empty if all is done
     */
    public static function install(string $layer, string $kind): array
    {
        if (self::state($layer) === 'foreign') {
            /* translators: %s: a path */
            return [sprintf(__('Another plugin owns %s. Deactivate that plugin first; Petasos has changed nothing.', 'petasos'), self::target($layer))];
        }
        $values = Stored::read();
        if ($layer === 'pages') {
            $values['PETASOS_PAGES'] = 'files';
            $values['made_cache'] = ($values['made_cache'] ?? false) || !is_dir(WP_CONTENT_DIR . '/cache');
        } else {
            $values['PETASOS_OBJECTS'] = ['*' => $kind];
            // Objects that an earlier installation left in the server may be outdated.
            $values['PETASOS_OBJECTS_PREFIX'] = bin2hex(random_bytes(8));
        }
        $values['installed'] = array_values(array_unique(array_merge((array) ($values['installed'] ?? []), [$layer])));
        Stored::write($values);
        $left = self::writeSettings();
        $source = (string) file_get_contents(self::source($layer));
        if (self::state($layer) !== 'own' && !Files::write(self::target($layer), $source)) {
            /* translators: 1: a path, 2: a path */
            $left[] = sprintf(__('WordPress may not write here. Copy the file %1$s to %2$s, for example with the file manager of your host.', 'petasos'), self::source($layer), self::target($layer));
        }
        if ($layer === 'pages' && !PageCache::purge([])) {
            /* translators: %s: a path */
            $left[] = sprintf(__('WordPress may not write here. Make the directory %s and let PHP write to it.', 'petasos'), WP_CONTENT_DIR . '/cache/petasos');
        }
        if ($layer === 'pages' && !ConfigFile::isOn() && !ConfigFile::add()) {
            /* translators: %s: a line of PHP */
            $left[] = sprintf(__('Add this line to wp-config.php, below <?php, and remove any other line with WP_CACHE: %s', 'petasos'), ConfigFile::LINE);
        }
        return $left;
    }

    /**
     * Removes a layer that was installed here: first its drop-in and its settings, then what it has
     * stored. While one of the files stays, the layer's values stay too, so that purges still reach
     * the pages that the drop-in may serve, and the removal can be repeated.
     *
     * @return list<string> as `install`
     */
    public static function remove(string $layer): array
    {
        $left = [];
        if (in_array(self::state($layer), ['own', 'old'], true) && !Files::remove(self::target($layer))) {
            $left[] = self::cannotRemove(self::target($layer));
        }
        // The page cache of another plugin needs the line too.
        if ($layer === 'pages' && self::state($layer) !== 'foreign' && !ConfigFile::remove()) {
            /* translators: %s: a line of PHP */
            $left[] = sprintf(__('Remove this line from wp-config.php: %s', 'petasos'), ConfigFile::LINE);
        }
        $own = ['pages' => ['PETASOS_PAGES', 'made_cache'], 'objects' => ['PETASOS_OBJECTS', 'PETASOS_OBJECTS_PREFIX']];
        $values = Stored::read();
        $rest = array_diff_key($values, array_flip($own[$layer]));
        $rest['installed'] = array_values(array_diff((array) ($values['installed'] ?? []), [$layer]));
        $is_there = in_array(self::state($layer), ['own', 'old'], true);
        $not_written = self::writeSettingsOf($is_there ? $values : $rest);
        $is_gone = !$is_there && $not_written === [];
        if ($layer === 'pages') {
            $is_gone ? self::emptyPages() : PageCache::purge([]);
        } else {
            wp_cache_flush();
        }
        if ($is_gone) {
            Stored::write($rest);
        }
        return array_merge($left, $not_written);
    }

    /** @return list<string> the layers that were installed here */
    public static function installed(): array
    {
        return self::layersOf(Stored::read());
    }

    /**
     * Writes the file of settings for the drop-ins, or removes it if there is none of them.
     *
     * @return list<string> as `install`
     */
    public static function writeSettings(): array
    {
        return self::writeSettingsOf(Stored::read());
    }

    /**
     * The kinds of object servers that PHP can reach, best first. APCu is last, because commands
     * and cron jobs of the system do not see its memory.
     *
     * @return list<string>
     */
    public static function kinds(): array
    {
        if (self::$kinds !== null) {
            return self::$kinds;
        }
        $kinds = [];
        foreach (['redis' => \Redis::class, 'memcached' => \Memcached::class] as $kind => $class) {
            if (class_exists($class) && self::answers($kind)) {
                $kinds[] = $kind;
            }
        }
        if (function_exists('apcu_enabled') && apcu_enabled()) {
            $kinds[] = 'apcu';
        }
        return self::$kinds = $kinds;
    }

    /**
     * @param  array<string, mixed> $values as the screen stores them
     * @return list<string> as `install`
     */
    private static function writeSettingsOf(array $values): array
    {
        $path = WP_CONTENT_DIR . '/' . self::SETTINGS;
        if (self::layersOf($values) === []) {
            return Files::remove($path) ? [] : [self::cannotRemove($path)];
        }
        $passed_on = array_intersect_key($values, array_flip(self::PASSED_ON)) + ['PETASOS_DIR' => self::directory()];
        $text = "<?php\n// The settings of Tools > Petasos for the drop-ins. Each change there replaces this file.\nreturn " . var_export($passed_on, true) . ";\n";
        if ((is_file($path) && file_get_contents($path) === $text) || Files::write($path, $text)) {
            return [];
        }
        /* translators: 1: a path, 2: PHP code */
        return [sprintf(__('WordPress may not write here. Make the file %1$s with this content: %2$s', 'petasos'), $path, $text)];
    }

    /**
     * The plugin's directory, relative to wp-content if it is below it. The copy of a site then
     * runs its own copy of the plugin.
     */
    private static function directory(): string
    {
        $content = realpath(WP_CONTENT_DIR) . '/';
        return Text::startsWith(dirname(__DIR__), $content) ? substr(dirname(__DIR__), strlen($content)) : dirname(__DIR__);
    }

    /**
     * @param  array<string, mixed> $values as the screen stores them
     * @return list<string>
     */
    private static function layersOf(array $values): array
    {
        return array_values(array_intersect(array_keys(self::NAMES), (array) ($values['installed'] ?? [])));
    }

    private static function cannotRemove(string $path): string
    {
        /* translators: %s: a path */
        return sprintf(__('WordPress may not remove %s. Delete it, for example with the file manager of your host.', 'petasos'), $path);
    }

    /**
     * The kind that the screen proposes; null if the owner must decide.
     *
     * @param list<string> $kinds as `kinds` returns them
     */
    public static function proposed(array $kinds): ?string
    {
        $kind = $kinds[0] ?? null;
        // The events of WordPress then run in a cron job of the system, often outside of PHP-FPM.
        return $kind === 'apcu' && defined('DISABLE_WP_CRON') && DISABLE_WP_CRON ? null : $kind;
    }

    private static function answers(string $kind): bool
    {
        try {
            $backend = (new Objects\Router(['*' => $kind]))->backend('*');
            if ($backend !== null) {
                // Making a client of memcached does not connect.
                $backend->get(['petasos']);
            }
            return $backend !== null;
        } catch (Objects\Gone $gone) {
            return false;
        }
    }

    /** Removes the stored pages, and the directory if this plugin made it. */
    private static function emptyPages(): void
    {
        $store = Settings::isFixed('PETASOS_PAGES') ? null : PageCache::store();
        if ($store instanceof FileStore) {
            $store->remove();
            if (!empty(Stored::read()['made_cache'])) {
                // Fails if another plugin has files there, which is right.
                @rmdir(WP_CONTENT_DIR . '/cache');
            }
        }
    }
}

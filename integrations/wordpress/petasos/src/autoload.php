<?php
/**
 * Loads the plugin's classes on first use: `Petasos\Pages\Page` is in `pages/Page.php`.
 *
 * Invariant: loading this file defines no global function. It may run before WordPress, whose own
 * definitions for older versions of PHP must count for other plug-ins.
 */

declare(strict_types=1);

spl_autoload_register(static function (string $class): void {
    $words = explode('\\', $class);
    if (array_shift($words) !== 'Petasos') {
        return;
    }
    $name = array_pop($words);
    $file = dirname(__DIR__) . '/' . strtolower($words[0] ?? 'src') . "/$name.php";
    if (is_file($file)) {
        require_once $file;
    }
});

<?php
/**
 * Loads the plugin's classes on first use: `Petasos\Pages\Page` is in `pages/Page.php`.
 *
 * PHP 7.4 lacks three functions for strings. WordPress defines them too, but later than the page
 * cache needs them.
 */

declare(strict_types=1);

if (!function_exists('str_contains')) {
    function str_contains(string $text, string $part): bool
    {
        return $part === '' || strpos($text, $part) !== false;
    }
}

if (!function_exists('str_starts_with')) {
    function str_starts_with(string $text, string $start): bool
    {
        return strncmp($text, $start, strlen($start)) === 0;
    }
}

if (!function_exists('str_ends_with')) {
    function str_ends_with(string $text, string $end): bool
    {
        return $end === '' || substr($text, -strlen($end)) === $end;
    }
}

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

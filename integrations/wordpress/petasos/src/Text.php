<?php
/**
 * Three functions for strings that PHP has since version 8.
 *
 * They are methods, because a global function of the same name would replace the one that WordPress
 * defines later for PHP 7.4, and other plug-ins may call that one with any type. Pure.
 */

declare(strict_types=1);

namespace Petasos;

final class Text
{
    public static function contains(string $text, string $part): bool
    {
        return $part === '' || strpos($text, $part) !== false;
    }

    public static function startsWith(string $text, string $start): bool
    {
        return strncmp($text, $start, strlen($start)) === 0;
    }

    public static function endsWith(string $text, string $end): bool
    {
        return $end === '' || substr($text, -strlen($end)) === $end;
    }
}

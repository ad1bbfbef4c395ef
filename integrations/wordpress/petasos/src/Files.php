<?php
/**
 * Writes and removes files of the site.
 *
 * Invariant: a file has its old or its new content at every moment, and keeps its mode, owner and
 * group. A file that PHP may not write is not replaced. Nothing is written where
 * WordPress itself would ask for the password of a file server, or where the owner has forbidden
 * changes of files.
 */

declare(strict_types=1);

namespace Petasos;

final class Files
{
    /** Whether PHP may change files of this directory. */
    public static function isAllowed(string $directory): bool
    {
        require_once ABSPATH . 'wp-admin/includes/file.php';
        return wp_is_file_mod_allowed('petasos_files') && is_writable($directory)
            && get_filesystem_method([], $directory) === 'direct';
    }

    /** @return bool whether the file now has this content */
    public static function write(string $path, string $text): bool
    {
        // A link stays one.
        $path = realpath($path) ?: $path;
        if (!self::isAllowed(dirname($path)) || (is_file($path) && !is_writable($path))) {
            return false;
        }
        $mode = is_file($path) ? fileperms($path) & 0777 : (defined('FS_CHMOD_FILE') ? FS_CHMOD_FILE : 0644);
        $new = @tempnam(dirname($path), 'petasos');
        // `tempnam` may use the system's directory, from which a rename is no single step.
        $is_beside = $new !== false && realpath(dirname($new)) === realpath(dirname($path));
        $done = $is_beside && file_put_contents($new, $text) === strlen($text) && self::hasOwner($new, $path) && chmod($new, $mode) && rename($new, $path);
        if (!$done && $new !== false && is_file($new)) {
            unlink($new);
        }
        self::forget($path);
        return $done;
    }

    /** Whether a new file has the owner and the group of the file that it replaces, if there is one. */
    private static function hasOwner(string $new, string $path): bool
    {
        if (!is_file($path)) {
            return true;
        }
        if (filegroup($new) !== filegroup($path)) {
            // PHP's user may belong to the group.
            @chgrp($new, (int) filegroup($path));
            clearstatcache(true, $new);
        }
        return fileowner($new) === fileowner($path) && filegroup($new) === filegroup($path);
    }

    /** @return bool whether there is no such file now */
    public static function remove(string $path): bool
    {
        if (!is_file($path)) {
            return true;
        }
        $done = self::isAllowed(dirname($path)) && unlink($path);
        self::forget($path);
        return $done;
    }

    /** Makes PHP read the file again, which it may otherwise do much later. */
    private static function forget(string $path): void
    {
        clearstatcache(true, $path);
        if (function_exists('opcache_invalidate') && ini_get('opcache.restrict_api') === '') {
            opcache_invalidate($path, true);
        }
    }
}

<?php
/**
 * Runs the tests that need no WordPress: `php tests/run.php`.
 *
 * Each file `*_test.php` in this directory returns closures by name. A closure throws if its test
 * fails. The last line contains the numbers of passed and failed tests. The exit code is 1 if a
 * test failed.
 */

declare(strict_types=1);

require dirname(__DIR__) . '/petasos/src/autoload.php';

/** Throws unless both values are identical. */
function same($is, $should, string $what = ''): void
{
    if ($is !== $should) {
        throw new RuntimeException(trim("$what: is " . var_export($is, true) . ', should be ' . var_export($should, true), ': '));
    }
}

/** A directory for the test, removed at the end. */
function directory(): string
{
    $path = sys_get_temp_dir() . '/petasos-' . bin2hex(random_bytes(6));
    mkdir($path);
    register_shutdown_function(static function () use ($path): void {
        $files = new RecursiveIteratorIterator(
            new RecursiveDirectoryIterator($path, FilesystemIterator::SKIP_DOTS),
            RecursiveIteratorIterator::CHILD_FIRST
        );
        foreach (is_dir($path) ? $files : [] as $file) {
            $file->isDir() ? rmdir((string) $file) : unlink((string) $file);
        }
        is_dir($path) && rmdir($path);
    });
    return $path;
}

set_error_handler(static function (int $level, string $text, string $file, int $line): bool {
    if ((error_reporting() & $level) !== 0) {
        throw new ErrorException($text, 0, $level, $file, $line);
    }
    return false;
});

$passed = $failed = 0;
foreach (glob(__DIR__ . '/*_test.php') ?: [] as $file) {
    foreach (require $file as $what => $test) {
        try {
            $test();
            ++$passed;
        } catch (Throwable $error) {
            ++$failed;
            echo basename($file), ": $what: ", get_class($error), ' ', $error->getMessage(), ' in line ', $error->getLine(), "\n";
        }
    }
}
echo "$passed passed, $failed failed\n";
exit($failed === 0 && $passed > 0 ? 0 : 1);

<?php
/**
 * Pages in files, distributed over 64 directories, with the purge log beside them.
 *
 * Invariant: a file has its final name only when it is complete. Each directory has an equal share
 * of the bounds on pages and bytes, and removes its oldest pages. One process at a time changes the
 * log. Only the user of PHP can read the files. Their names depend on a secret of the site, because
 * a web server that ignores `.htaccess` would serve them, also after a purge.
 */

declare(strict_types=1);

namespace Petasos\Pages;

use Petasos\Settings;
use Petasos\Text;

final class FileStore implements Store
{
    private const DIRECTORIES = 64;

    /** Files that keep a web server from listing and serving the directory, by name. */
    private const GUARDS = [
        'index.php' => "<?php\n// Nothing to see here.\n",
        '.htaccess' => "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>\n<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>\n",
    ];

    /** Age after which an unfinished file counts as abandoned, in seconds. */
    private const LEFT_BEHIND = 60;

    private string $directory;
    private int $pages_max;
    private int $octets_max;

    public function __construct(
        string $directory,
        int $pages_max,
        int $octets_max
    ) {
        $this->directory = $directory;
        $this->pages_max = $pages_max;
        $this->octets_max = $octets_max;
    }

    public function log(): ?PurgeLog
    {
        $text = @file_get_contents($this->logPath());
        $log = $text === false ? null : PurgeLog::decode($text);
        return $log ?? $this->changeLog(static function (PurgeLog $log): void {
        });
    }

    public function read(string $key): ?string
    {
        $text = @file_get_contents($this->path($key));
        return $text === false ? null : $text;
    }

    public function write(string $key, string $text, int $seconds): void
    {
        $path = $this->path($key);
        if (!$this->makeDirectory(dirname($path)) || !$this->replace($path, $text)) {
            return;
        }
        $this->makeRoom(dirname($path), basename($path));
    }

    public function purge(array $tags): bool
    {
        return $this->changeLog(static fn (PurgeLog $log) => $log->purge($tags)) !== null;
    }

    public function remove(): void
    {
        foreach ($this->directories() as $directory) {
            array_map(static fn (string $file) => @unlink($file), glob("$directory/*") ?: []);
            @rmdir($directory);
        }
        array_map(static fn (string $file) => @unlink($file), [...(glob("$this->directory/*") ?: []), "$this->directory/.htaccess"]);
        @rmdir($this->directory);
    }

    private function logPath(): string
    {
        return "$this->directory/purges.json";
    }

    private function path(string $key): string
    {
        $name = hash_hmac('sha256', $key, Settings::secret());
        return sprintf('%s/%02d/%s.page', $this->directory, hexdec(substr($name, 0, 2)) % self::DIRECTORIES, $name);
    }

    /** @return list<string> */
    private function directories(): array
    {
        return array_values(array_filter(glob("$this->directory/[0-9][0-9]") ?: [], 'is_dir'));
    }

    private function makeDirectory(string $path): bool
    {
        return is_dir($path) || @mkdir($path, 0755, true) || is_dir($path);
    }

    private function guard(): void
    {
        foreach (self::GUARDS as $name => $text) {
            if (!is_file("$this->directory/$name")) {
                @file_put_contents("$this->directory/$name", $text);
            }
        }
    }

    /**
     * Writes a temporary file and renames it, so that readers see either the old text or the new
     * one.
     */
    private function replace(string $path, string $text): bool
    {
        $new = @tempnam(dirname($path), 'new');
        // If the directory is not writable, `tempnam` uses the system's directory, from which a
        // rename may fail.
        if ($new === false || dirname($new) !== dirname($path)) {
            return false;
        }
        if (@file_put_contents($new, $text) === strlen($text) && @chmod($new, 0600) && @rename($new, $path)) {
            return true;
        }
        @unlink($new);
        return false;
    }

    /** Reads, changes and writes the log under a lock. */
    private function changeLog(callable $change): ?PurgeLog
    {
        $this->makeDirectory($this->directory);
        $this->guard();
        $lock = @fopen("$this->directory/lock", 'c');
        if ($lock === false || !flock($lock, LOCK_EX)) {
            return null;
        }
        $text = @file_get_contents($this->logPath());
        $log = ($text === false ? null : PurgeLog::decode($text)) ?? PurgeLog::fresh((int) (microtime(true) * 1e6));
        $change($log);
        $written = $this->replace($this->logPath(), $log->encode());
        fclose($lock);
        return $written ? $log : null;
    }

    /**
     * Removes the oldest files of a directory until it is within its share. The newest file always
     * stays.
     */
    private function makeRoom(string $directory, string $newest): void
    {
        $files = [];
        $octets = 0;
        foreach (@scandir($directory) ?: [] as $name) {
            $stat = $name[0] === '.' ? false : @stat("$directory/$name");
            if ($stat === false) {
                continue;
            }
            if (!Text::endsWith($name, '.page')) {
                if ($stat['mtime'] < time() - self::LEFT_BEHIND) {
                    @unlink("$directory/$name");
                }
                continue;
            }
            $octets += $stat['size'];
            $files[$name] = [$name === $newest ? PHP_INT_MAX : $stat['mtime'], $stat['size']];
        }
        asort($files);
        $count = count($files);
        $count_max = max(1, intdiv($this->pages_max, self::DIRECTORIES));
        $share = intdiv($this->octets_max, self::DIRECTORIES);
        foreach ($files as $name => [, $size]) {
            if (($count <= $count_max && $octets <= $share) || $count === 1) {
                return;
            }
            @unlink("$directory/$name");
            --$count;
            $octets -= $size;
        }
    }
}

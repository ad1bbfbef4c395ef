<?php
/**
 * Pages in files: one for each page, in one of 64 directories, and the log of purges beside them.
 *
 * Invariant: a file appears under its name only when it is complete. Each directory holds its share of the bounds on
 * pages and octets, and the oldest make way. The log is changed by one process at a time.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class FileStore implements Store
{
    private const DIRECTORIES = 64;

    /** Age at which a file that was never finished is taken for left behind. In seconds. */
    private const LEFT_BEHIND = 60;

    public function __construct(
        private readonly string $directory,
        private readonly int $pages_max,
        private readonly int $octets_max,
    ) {
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
        array_map(static fn (string $file) => @unlink($file), glob("$this->directory/*") ?: []);
        @rmdir($this->directory);
    }

    private function logPath(): string
    {
        return "$this->directory/purges.json";
    }

    private function path(string $key): string
    {
        $name = hash('sha256', $key);
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

    /** Writes beside the name and renames: whoever reads sees the old text or the new. */
    private function replace(string $path, string $text): bool
    {
        $new = @tempnam(dirname($path), 'new');
        // Where the directory cannot be written, `tempnam` takes that of the system, from which nothing can be renamed.
        if ($new === false || dirname($new) !== dirname($path)) {
            return false;
        }
        if (@file_put_contents($new, $text) === strlen($text) && @chmod($new, 0644) && @rename($new, $path)) {
            return true;
        }
        @unlink($new);
        return false;
    }

    /** Reads, changes and writes the log while nobody else does. */
    private function changeLog(callable $change): ?PurgeLog
    {
        $this->makeDirectory($this->directory);
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

    /** Removes the oldest files of a directory until it keeps to its share; the one just written stays. */
    private function makeRoom(string $directory, string $newest): void
    {
        $files = [];
        $octets = 0;
        foreach (@scandir($directory) ?: [] as $name) {
            $stat = $name[0] === '.' ? false : @stat("$directory/$name");
            if ($stat === false) {
                continue;
            }
            if (!str_ends_with($name, '.page')) {
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

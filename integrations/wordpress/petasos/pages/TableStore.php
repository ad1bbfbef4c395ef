<?php
/**
 * Pages in a table of WordPress' database. One row holds the purge log.
 *
 * Invariant: the table is created with the first page. Its pages and bytes are bounded, and the
 * oldest pages are removed. One connection at a time changes the log. It needs `$wpdb`.
 */

declare(strict_types=1);

namespace Petasos\Pages;

final class TableStore implements Store
{
    /** Name of the log's row. No page has this name, because pages are named by a hash. */
    private const LOG = 'purges';

    /** Timeout for the lock of the log, in seconds. */
    private const LOCK_WAIT = 5;

    private string $table;

    private \wpdb $database;
    private int $pages_max;
    private int $octets_max;

    public function __construct(
        \wpdb $database,
        int $pages_max,
        int $octets_max
    ) {
        $this->database = $database;
        $this->pages_max = $pages_max;
        $this->octets_max = $octets_max;
        $this->table = $database->base_prefix . 'petasos_pages';
    }

    public function log(): ?PurgeLog
    {
        $text = $this->row(self::LOG);
        $log = $text === null ? null : PurgeLog::decode($text);
        return $log ?? $this->changeLog(static function (PurgeLog $log): void {
        });
    }

    public function read(string $key): ?string
    {
        return $this->row(hash('sha256', $key));
    }

    public function write(string $key, string $text, int $seconds): void
    {
        if ($this->replace(hash('sha256', $key), $text)) {
            $this->makeRoom();
        }
    }

    public function purge(array $tags): bool
    {
        return $this->changeLog(static fn (PurgeLog $log) => $log->purge($tags)) !== null;
    }

    public function remove(): void
    {
        $this->query("DROP TABLE IF EXISTS `$this->table`");
    }

    private function row(string $name): ?string
    {
        $sql = $this->database->prepare("SELECT text FROM `$this->table` WHERE name = %s", $name);
        return $this->quietly(fn () => $this->database->get_var($sql));
    }

    private function replace(string $name, string $text): bool
    {
        $sql = $this->database->prepare(
            "REPLACE INTO `$this->table` (name, made, octets, text) VALUES (%s, %f, %d, _binary %s)",
            $name,
            microtime(true),
            strlen($text),
            $text
        );
        return $this->query($sql) || ($this->makeTable() && $this->query($sql));
    }

    private function makeTable(): bool
    {
        return $this->query("CREATE TABLE IF NOT EXISTS `$this->table` (
            name CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
            made DOUBLE NOT NULL,
            octets INT UNSIGNED NOT NULL,
            text LONGBLOB NOT NULL,
            KEY age (made, octets)
        ) ENGINE = InnoDB");
    }

    private function changeLog(callable $change): ?PurgeLog
    {
        $lock = $this->database->prepare('SELECT GET_LOCK(%s, %d)', DB_NAME . ".$this->table", self::LOCK_WAIT);
        if ($this->quietly(fn () => $this->database->get_var($lock)) !== '1') {
            return null;
        }
        $text = $this->row(self::LOG);
        $log = ($text === null ? null : PurgeLog::decode($text)) ?? PurgeLog::fresh((int) (microtime(true) * 1e6));
        $change($log);
        $written = $this->replace(self::LOG, $log->encode());
        $this->query($this->database->prepare('DO RELEASE_LOCK(%s)', DB_NAME . ".$this->table"));
        return $written ? $log : null;
    }

    /**
     * Removes the oldest pages if a bound is exceeded. One call may not be enough for the bound on
     * bytes.
     */
    private function makeRoom(): void
    {
        $sums = $this->quietly(fn () => $this->database->get_row("SELECT COUNT(*) AS pages, SUM(octets) AS octets FROM `$this->table`"));
        if ($sums === null || ((int) $sums->pages <= $this->pages_max && (int) $sums->octets <= $this->octets_max)) {
            return;
        }
        // At least a tenth, so that the next pages find room.
        $count = max(1, (int) $sums->pages - $this->pages_max, intdiv((int) $sums->pages, 10));
        $sql = "DELETE FROM `$this->table` WHERE name <> %s ORDER BY made LIMIT %d";
        $this->query($this->database->prepare($sql, self::LOG, $count));
    }

    private function query(string $sql): bool
    {
        return $this->quietly(fn () => $this->database->query($sql)) !== false;
    }

    /** Suppresses errors, because the table may not exist yet. */
    private function quietly(callable $ask)
    {
        $before = $this->database->suppress_errors(true);
        try {
            return $ask();
        } finally {
            $this->database->suppress_errors($before);
        }
    }
}

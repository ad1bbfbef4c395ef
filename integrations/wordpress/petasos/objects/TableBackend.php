<?php
/**
 * Objects in a table of WordPress' database, for groups that must outlive a restart, such as
 * transients.
 *
 * Invariant: an expired value is a miss, and is removed from time to time. It needs `$wpdb`, and
 * throws `Gone` only without it. It is useful only for values that take longer to generate than a
 * query.
 */

declare(strict_types=1);

namespace Petasos\Objects;

final class TableBackend implements Backend
{
    /** One in this many writes removes expired values. */
    private const SWEEP = 200;

    private string $table;
    private \wpdb $database;

    private Codec $codec;

    /** @throws Gone */
    public function __construct(Codec $codec)
    {
        $this->codec = $codec;
        $database = $GLOBALS['wpdb'] ?? null;
        if (!$database instanceof \wpdb) {
            throw new Gone('the database is not there yet');
        }
        $this->database = $database;
        $this->table = $database->base_prefix . 'petasos_objects';
    }

    public function get(array $keys): array
    {
        $names = [];
        foreach ($keys as $key) {
            $names[hash('sha256', $key)] = $key;
        }
        $places = implode(', ', array_fill(0, count($names), '%s'));
        $sql = "SELECT name, text FROM `$this->table` WHERE name IN ($places) AND (expires = 0 OR expires > %d)";
        $sql = $this->database->prepare($sql, [...array_keys($names), time()]);
        $found = [];
        foreach ($this->quietly(fn () => $this->database->get_results($sql)) ?: [] as $row) {
            [$is_ours, $value] = $this->codec->decode($row->text);
            if ($is_ours) {
                $found[$names[$row->name]] = $value;
            }
        }
        return $found;
    }

    public function set(string $key, $value, int $seconds): bool
    {
        return $this->write('REPLACE', $key, $value, $seconds) !== 0;
    }

    public function add(string $key, $value, int $seconds): bool
    {
        $sql = "DELETE FROM `$this->table` WHERE name = %s AND expires > 0 AND expires <= %d";
        $this->query($this->database->prepare($sql, hash('sha256', $key), time()));
        return $this->write('INSERT IGNORE', $key, $value, $seconds) !== 0;
    }

    public function delete(string $key): bool
    {
        $sql = $this->database->prepare("DELETE FROM `$this->table` WHERE name = %s", hash('sha256', $key));
        return (int) $this->query($sql) > 0;
    }

    public function increment(string $key, int $by): ?int
    {
        $sql = "UPDATE `$this->table` SET text = CAST(LAST_INSERT_ID(text + %d) AS CHAR) WHERE name = %s AND text REGEXP '^-?[0-9]+$'";
        if ((int) $this->query($this->database->prepare($sql, $by, hash('sha256', $key))) < 1) {
            return null;
        }
        return (int) $this->database->get_var('SELECT LAST_INSERT_ID()');
    }

    public static function remove(\wpdb $database): void
    {
        $database->query("DROP TABLE IF EXISTS `{$database->base_prefix}petasos_objects`");
    }

    private function write(string $verb, string $key, $value, int $seconds): int
    {
        if (mt_rand(1, self::SWEEP) === 1) {
            $sql = "DELETE FROM `$this->table` WHERE expires > 0 AND expires <= %d LIMIT 1000";
            $this->query($this->database->prepare($sql, time()));
        }
        $sql = $this->database->prepare(
            "$verb INTO `$this->table` (name, expires, text) VALUES (%s, %d, _binary %s)",
            hash('sha256', $key),
            $seconds > 0 ? time() + $seconds : 0,
            $this->codec->encode($value)
        );
        $written = $this->query($sql);
        return (int) ($written === false && $this->makeTable() ? $this->query($sql) : $written);
    }

    private function makeTable(): bool
    {
        return $this->query("CREATE TABLE IF NOT EXISTS `$this->table` (
            name CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
            expires BIGINT UNSIGNED NOT NULL,
            text LONGBLOB NOT NULL,
            KEY expires (expires)
        ) ENGINE = InnoDB") !== false;
    }

    private function query(string $sql)
    {
        return $this->quietly(fn () => $this->database->query($sql));
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

<?php
/**
 * Pages in an object server, if `PETASOS_OBJECTS` maps the group `petasos-pages`.
 *
 * Invariant: the server limits and evicts the pages. One process at a time changes the log. If the
 * server has failed or lost the log, no page may be used.
 */

declare(strict_types=1);

namespace Petasos\Pages;

use Petasos\Objects\Backend;
use Petasos\Objects\Gone;

final class BackendStore implements Store
{
    /** Number of attempts and pause between them for the lock of the log: two seconds in total. */
    private const LOCK_TRIES = 200;
    private const LOCK_PAUSE_US = 10_000;

    /** Lifetime of the lock, in seconds, in case its owner dies. */
    private const LOCK_LIFE = 5;

    private Backend $backend;
    private string $prefix;

    public function __construct(Backend $backend, string $prefix)
    {
        $this->backend = $backend;
        $this->prefix = $prefix;
    }

    public function log(): ?PurgeLog
    {
        $text = $this->text('purges');
        $log = $text === null ? null : PurgeLog::decode($text);
        return $log ?? $this->changeLog(static function (PurgeLog $log): void {
        });
    }

    public function read(string $key): ?string
    {
        return $this->text('page:' . hash('sha256', $key));
    }

    public function write(string $key, string $text, int $seconds): void
    {
        try {
            $this->backend->set("$this->prefix:page:" . hash('sha256', $key), $text, $seconds);
        } catch (Gone $error) {
            // The page is generated again at the next visit.
        }
    }

    public function purge(array $tags): bool
    {
        return $this->changeLog(static fn (PurgeLog $log) => $log->purge($tags)) !== null;
    }

    public function remove(): void
    {
        // The server deletes the pages at the end of their lifetimes. Without the log, none of them
        // may be used.
        try {
            $this->backend->delete("$this->prefix:purges");
        } catch (Gone $error) {
            return;
        }
    }

    private function text(string $name): ?string
    {
        try {
            $text = $this->backend->get(["$this->prefix:$name"])["$this->prefix:$name"] ?? null;
        } catch (Gone $error) {
            return null;
        }
        return is_string($text) ? $text : null;
    }

    private function changeLog(callable $change): ?PurgeLog
    {
        try {
            for ($try = 0; !$this->backend->add("$this->prefix:lock", 1, self::LOCK_LIFE); ++$try) {
                if ($try === self::LOCK_TRIES) {
                    return null;
                }
                usleep(self::LOCK_PAUSE_US);
            }
            $text = $this->text('purges');
            $log = ($text === null ? null : PurgeLog::decode($text)) ?? PurgeLog::fresh((int) (microtime(true) * 1e6));
            $change($log);
            $written = $this->backend->set("$this->prefix:purges", $log->encode(), 0);
            $this->backend->delete("$this->prefix:lock");
            return $written ? $log : null;
        } catch (Gone $error) {
            return null;
        }
    }
}
